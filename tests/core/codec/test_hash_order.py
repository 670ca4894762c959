"""Equal values give equal bytes in every process: hashes of text differ between them, so no order of a set may show."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import dataclasses, sys
from typing import Any
import attrs, msgspec, pydantic
from perdure.core.codec import describe_arguments, natural_encode, schema_of

WORDS = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}

@dataclasses.dataclass
class Plain:
    words: set[str]

@attrs.define
class Attrs:
    words: set[str]

class Struct(msgspec.Struct):
    words: frozenset[str]

class Model(pydantic.BaseModel):
    words: set[str]
    renamed: set[str] = pydantic.Field(alias="otherWords")
    pairs: frozenset[tuple[str, int]]

class Root(pydantic.RootModel[set[str]]):
    pass

class RootOfDict(pydantic.RootModel[dict[str, set[str]]]):
    pass

class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    names: Any = None

class Deep(pydantic.BaseModel):
    listed: list[Model]
    keyed: dict[str, set[str]]
    record: Plain
    root: Root
    by_name: RootOfDict
    maybe: set[str] | None = None

def model():
    return Model(words=WORDS, otherWords=WORDS, pairs={(word, 1) for word in WORDS})

VALUES = [
    WORDS, Plain(WORDS), Attrs(WORDS), Struct(frozenset(WORDS)), model(), Root(WORDS), RootOfDict({"a": WORDS}),
    Loose(names=WORDS, extra=WORDS),
    Deep(listed=[model()], keyed={"a": WORDS}, record=Plain(WORDS), root=Root(WORDS), by_name=RootOfDict({"a": WORDS}), maybe=WORDS),
]
for value in VALUES:
    kind = set[str] if type(value) is set else type(value)
    if not isinstance(value, Loose):
        data = schema_of(kind).encode(value)
        assert schema_of(kind).decode(data) == value
        print(data.decode())
    print(describe_arguments((value,), {"named": value})[1].hex())
    if not isinstance(value, Loose):
        print(natural_encode(value).decode())
"""


def run(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True).stdout


def test_equal_values_give_equal_bytes_and_digests_under_every_hash_seed() -> None:
    first = run("0")
    assert first.count("\n") > 20
    for seed in ("1", "2", "3", "4", "5"):
        assert run(seed) == first
