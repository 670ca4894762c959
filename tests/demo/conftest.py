"""A language model for the demo's tests: an OpenAI-compatible server on loopback that answers by rote and counts its calls."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

WORDS = "What is recorded is kept, and what is kept is not paid for twice, however often its process dies."
PACE = 0.03  # seconds between two words


class FakeModel(ThreadingHTTPServer):
    """Streams `WORDS` for every call. `begun` and `ended` count them on the provider's side."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.begun: list[str] = []
        self.ended: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        """What makes an OpenAI client use it."""
        return {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server_port}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_MODEL": "by-rote",
        }


class _Call(BaseHTTPRequestHandler):
    server: FakeModel

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][-1]["content"]
        self.server.begun.append(prompt)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for word in WORDS.split():
                self._chunk([{"index": 0, "delta": {"content": f"{word} "}, "finish_reason": None}], None)
                time.sleep(PACE)
            usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(WORDS.split()), "total_tokens": 0}
            self._chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}], None)
            self._chunk([], usage)
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # the caller was killed
            return
        self.server.ended.append(prompt)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, int] | None) -> None:
        chunk = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "by-rote",
            "choices": choices,
            "usage": usage,
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


@pytest.fixture
def fake_model() -> Iterator[FakeModel]:
    """A server that is up for the test."""
    server = FakeModel()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
