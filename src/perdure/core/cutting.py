"""Where to cut JSON into pieces that are worth storing once. Finds byte ranges; knows nothing of blobs or addresses.

msgspec gives the raw bytes of a container's elements without parsing them. Their places are then computed and *checked*
against the JSON; where that fails (JSON with spaces, keys with unusual escapes), nothing is cut at that place.
"""

from __future__ import annotations

import msgspec

__all__ = ["BLOB_SIZE", "pieces_of"]

ELEMENT = 1024
"""List elements larger than this are pieces; smaller ones are gathered until they are."""
WHOLE = 4 * 1024
"""Elements larger than this are looked into: the list that grows may be inside, as a conversation is in a call's arguments."""
BLOB_SIZE = 256 * 1024
DEPTH = 8

_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_raw_dict = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

Cuts = list[tuple[int, int]]
_LIST, _DICT, _COMMA, _COLON = ord("["), ord("{"), ord(","), ord(":")


def pieces_of(json: bytes) -> Cuts | None:
    """The ranges to cut out, in order, none empty; None when there are none.

    >>> pieces_of(b'{"messages":["' + b"x" * 2000 + b'","short"]}')
    [(13, 2015)]
    """
    if b"[" not in json:
        return None
    cuts: Cuts = []
    _container(json, 0, len(json), cuts, DEPTH)
    return cuts or None


def _container(json: bytes, start: int, end: int, cuts: Cuts, depth: int) -> None:
    if depth <= 0 or end - start <= ELEMENT:
        return
    try:
        if json[start] == _LIST:
            _list(json, start, _raw_list(json[start:end]), cuts, depth)
        elif json[start] == _DICT:
            _dict(json, start, _raw_dict(json[start:end]), cuts, depth)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return


def _list(json: bytes, start: int, items: list[msgspec.Raw], cuts: Cuts, depth: int) -> None:
    at = gathered = start + 1
    for index, raw in enumerate(items):
        item = bytes(raw)
        if index:
            if json[at] != _COMMA:
                return
            at += 1
        if not json.startswith(item, at):
            return
        end = at + len(item)
        if len(item) > ELEMENT:
            known = len(cuts)
            if len(item) > WHOLE:
                _container(json, at, end, cuts, depth - 1)
            if len(cuts) == known:
                cuts.append((at, end))
            gathered = end
        elif end - gathered > ELEMENT:
            cuts.append((gathered, end))
            gathered = end
        at = end


def _dict(json: bytes, start: int, items: dict[str, msgspec.Raw], cuts: Cuts, depth: int) -> None:
    at = start + 1
    for index, (key, raw) in enumerate(items.items()):
        if index:
            if json[at] != _COMMA:
                return
            at += 1
        name, item = _encode(key), bytes(raw)
        if not json.startswith(name, at) or json[at + len(name)] != _COLON:
            return
        at += len(name) + 1
        if not json.startswith(item, at):
            return
        _container(json, at, at + len(item), cuts, depth - 1)
        at += len(item)
