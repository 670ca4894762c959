"""Payloads: JSON bytes as they are stored. Small ones as they are, long ones compressed, repeated parts once.

Theory of operation. A packed payload begins with a tag. `PLAIN` is the JSON itself, `SQUEEZED` is it compressed, and `PIECES`
is a sequence of literal bytes and of addresses of blobs, whose concatenation is exactly the JSON. Cut out are the large
elements of lists, so that a conversation re-sent with every model call stores only its new element, and what is long
elsewhere. Sequences of addresses would themselves grow with every call, so runs of them, ended where the address itself says
so, become blobs in turn (an *index*, read back by the same rule): appending to a list changes only the last run.

A blob's address is the digest of what it stands for. Pure: who calls stores the blobs and fetches them.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator

import msgspec

from .cutting import BLOB_SIZE, pieces_of
from .errors import NotRestorable, PayloadTooLarge

__all__ = ["Blob", "indexes", "pack", "readable", "references", "unpack"]


class Blob(msgspec.Struct):
    """A content-addressed piece of a payload: stored once however often it is named."""

    address: bytes
    data: bytes


Fetch = Callable[[list[bytes]], dict[bytes, bytes]]

PLAIN, SQUEEZED, PIECES = b"\x01", b"\x02", b"\x03"
_PLAIN, _SQUEEZED, _PIECES = 1, 2, 3
_LITERAL, _PIECE, _INDEX = 0, 1, 2

SQUEEZE_FROM = 4 * 1024
CUT_FROM = 4 * 1024
INLINE_LIMIT = 64 * 1024
ADDRESS = 32

_RUN = 8
"""One in so many addresses ends a run, by its last byte."""
_LEVELS = 16
"""How deep indexes may nest when they are read."""


def pack(json: bytes, *, cap: int, where: str = "") -> tuple[bytes, list[Blob]]:
    r"""The packed payload, and the blobs that must be stored in the same transaction (many will be there already).

    Raises `PayloadTooLarge` when the JSON is longer than `cap` bytes, naming `where`.

    >>> pack(b'{"a":1}', cap=1000)
    (b'\x01{"a":1}', [])
    """
    size = len(json)
    if size > cap:
        raise PayloadTooLarge(
            f"{where + ': ' if where else ''}the value is {size:,} bytes of JSON, more than the cap of {cap:,}",
            hint="return a reference to it (a path, a key, an id) instead, or raise the payload cap",
        )
    if size <= CUT_FROM:
        return PLAIN + json, []
    cuts = pieces_of(json)
    if cuts is None and size <= INLINE_LIMIT:
        return _squeezed(json), []
    return _assembled(json, cuts or [])


def _nothing(addresses: list[bytes]) -> dict[bytes, bytes]:
    return {}


def unpack(packed: bytes, fetch: Fetch = _nothing) -> bytes:
    r"""The JSON bytes. `fetch` is asked for the blobs of one level at a time and leaves out those it has not; it may be left
    out for a payload that has no `references`.

    Raises `NotRestorable` for a blob that is missing or altered, and for bytes that are no packed payload.

    >>> unpack(b'\x01{"a":1}')
    b'{"a":1}'
    """
    tag = packed[0] if packed else 0
    if tag == _PLAIN:
        return packed[1:]
    if tag == _SQUEEZED:
        return _inflated(packed)
    parts = list(_segments(packed))
    for _ in range(_LEVELS):
        wanted = list({content for kind, content in parts if kind != _LITERAL})
        if not wanted:
            return b"".join(content for _, content in parts)
        found = _fetched(wanted, fetch)
        expanded: list[tuple[int, bytes]] = []
        for kind, content in parts:
            if kind == _LITERAL:
                expanded.append((kind, content))
            elif kind == _PIECE:
                expanded.append((_LITERAL, found[content]))
            else:
                expanded.extend(_segments(found[content]))
        parts = expanded
    raise NotRestorable("a stored payload nests its indexes too deep")


def references(packed: bytes) -> list[bytes]:
    r"""The addresses that a packed payload, or the data of a blob, names directly, each once.

    Blobs named by an index blob are named only there: who looks for blobs in use follows `indexes` too.

    >>> references(b'\x01{"a":1}')
    []
    """
    if not packed or packed[0] != _PIECES:
        return []
    return list(dict.fromkeys(content for kind, content in _segments(packed) if kind != _LITERAL))


def indexes(packed: bytes) -> list[bytes]:
    r"""Those of `references` whose blobs name further blobs.

    >>> indexes(b'\x01{"a":1}')
    []
    """
    if not packed or packed[0] != _PIECES:
        return []
    return list(dict.fromkeys(content for kind, content in _segments(packed) if kind == _INDEX))


def address_of(content: bytes) -> bytes:
    """The 32-byte blake2b digest by which content is stored once."""
    return hashlib.blake2b(content, digest_size=ADDRESS).digest()


# ── compression ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _squeezed(content: bytes) -> bytes:
    """Tagged bytes, compressed when they are long and it saves at least an eighth."""
    if len(content) > SQUEEZE_FROM:
        smaller = zlib.compress(content, 1)
        if len(smaller) <= len(content) - len(content) // 8:
            return SQUEEZED + smaller
    return PLAIN + content


def _inflated(packed: bytes) -> bytes:
    try:
        return zlib.decompress(packed[1:])
    except zlib.error as problem:
        raise NotRestorable(f"a stored payload is damaged: {problem}") from None


class _Recent:
    """The blobs that were made last, by address, so that a conversation is not compressed anew with each call.

    Two generations bounded by their bytes: when the young one is full, the old one is forgotten. Racing threads can at
    worst make a blob twice.
    """

    LIMIT = 4 * 1024 * 1024

    def __init__(self) -> None:
        self.young: dict[bytes, Blob] = {}
        self.old: dict[bytes, Blob] = {}
        self.size = 0

    def blob(self, content: bytes) -> Blob:
        address = address_of(content)
        known = self.young.get(address)
        if known is None:
            known = self.old.get(address) or Blob(address, _squeezed(content))
            if self.size > self.LIMIT:
                self.old, self.young, self.size = self.young, {}, 0
            self.young[address] = known
            self.size += len(known.data) + 200
        return known


_recent = _Recent()


# ── sequences of literals and addresses ─────────────────────────────────────────────────────────────────────────────


def _assembled(json: bytes, cuts: list[tuple[int, int]]) -> tuple[bytes, list[Blob]]:
    """The payload with `cuts` and whatever is long between them taken out."""
    blobs: dict[bytes, Blob] = {}
    parts: list[tuple[int, bytes]] = []

    def piece(start: int, end: int) -> None:
        for at in range(start, end, BLOB_SIZE):
            blob = _recent.blob(json[at : min(end, at + BLOB_SIZE)])
            blobs[blob.address] = blob
            parts.append((_PIECE, blob.address))

    def literal(start: int, end: int) -> None:
        if end - start > LITERAL_LIMIT:
            piece(start, end)
        elif end > start:
            parts.append((_LITERAL, json[start:end]))

    done = 0
    for start, end in cuts:
        literal(done, start)
        piece(start, end)
        done = end
    literal(done, len(json))
    return _indexed(parts, blobs), list(blobs.values())


LITERAL_LIMIT = 1024
"""Beside pieces, longer literals become pieces too: a system prompt is re-sent as often as the messages are."""


def _indexed(parts: list[tuple[int, bytes]], blobs: dict[bytes, Blob]) -> bytes:
    """The packed sequence, after runs of addresses became index blobs, and runs of those in turn."""
    while True:
        grouped: list[tuple[int, bytes]] = []
        run: list[tuple[int, bytes]] = []
        found = 0
        for part in parts:
            run.append(part)
            if part[0] != _LITERAL and part[1][-1] % _RUN == 0 and sum(kind != _LITERAL for kind, _ in run) > 1:
                content = _sequence(run)
                blob = Blob(address_of(content), content)
                blobs[blob.address] = blob
                grouped.append((_INDEX, blob.address))
                run = []
                found += 1
        if not found:
            return _sequence(parts)
        parts = grouped + run


def _sequence(parts: list[tuple[int, bytes]]) -> bytes:
    written = [PIECES]
    for kind, content in parts:
        written.append(bytes((kind,)) + (_varint(len(content)) if kind == _LITERAL else b""))
        written.append(content)
    return b"".join(written)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _segments(packed: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a sequence. Raises `NotRestorable` for bytes that are none."""
    end = len(packed)
    if not end or packed[0] != _PIECES:
        raise NotRestorable(f"stored bytes are no payload: they begin with {packed[:4]!r}")
    at = 1
    while at < end:
        kind = packed[at]
        at += 1
        size = ADDRESS
        if kind == _LITERAL:
            size, shift = 0, 0
            while at < end:
                byte = packed[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        if kind > _INDEX or at + size > end:
            raise NotRestorable("a stored payload is cut short or damaged")
        yield kind, packed[at : at + size]
        at += size


def _fetched(wanted: list[bytes], fetch: Fetch) -> dict[bytes, bytes]:
    """The contents of blobs, each checked against its address."""
    found = fetch(wanted)
    contents: dict[bytes, bytes] = {}
    for address in wanted:
        data = found.get(address)
        if data is None:
            raise NotRestorable(f"a part of a stored payload is missing (blob {address.hex()[:16]}…)")
        tag = data[0] if data else 0
        content = data[1:] if tag == _PLAIN else _inflated(data) if tag == _SQUEEZED else data
        if address_of(content) != address:
            raise NotRestorable(f"a part of a stored payload was altered (blob {address.hex()[:16]}…)")
        contents[address] = content
    return contents


def readable(packed: bytes) -> str:
    """A packed payload as short text for people; one that lies in blobs is only named."""
    if not packed:
        return ""
    if references(packed):
        return "(large)"
    text = unpack(packed).decode(errors="replace")
    return text if len(text) <= 200 else text[:200] + "…"
