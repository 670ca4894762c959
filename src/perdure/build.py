"""Which build of the user's code a process runs: a label, so that a blocked run is tried again by other code, not the same.

The label is `$PERDURE_BUILD`, or a digest of the files that define the known workflows and steps and of their packages'
loaded modules. It decides nothing but that: whether code fits a journal is found by replaying it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["build_of"]


def build_of(modules: Iterable[str]) -> str:
    """The build label for code that is defined in these modules."""
    label = os.environ.get("PERDURE_BUILD")
    if label:
        return label
    packages = {name.partition(".")[0] for name in modules}
    files = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] in packages:
            files.add(file)
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(files):
        try:
            digest.update(Path(file).read_bytes())
        except OSError:  # a zipped or generated module: its name has to do
            digest.update(file.encode())
    return digest.hexdigest()
