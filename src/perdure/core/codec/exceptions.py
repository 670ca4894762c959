"""Exceptions as stored: class name, arguments, state, notes, causes, members and traceback text; and back.

Theory of operation. The class is looked up among loaded modules and must be an exception, so a stored name can never make
anything run or load. The instance is made by the nearest built-in base's own `__new__` and `__init__` (they only keep what
they are given); no other constructor runs. If the class is not there, or the rebuilt one would tell another message, a
`StepError` stands in. The live exception makes the same trip, so `except` takes the same branch live and replayed.

Writing never fails: what cannot be stored of an exception is left out (state) or stands as its text (arguments).
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

from perdure.core.errors import NotRestorable, StepError

from .attachments import restore, store
from .naming import find_class, module_of, name_of
from .node import Definitions, Node
from .plain import from_bytes, to_bytes
from .refusal import Refusal

__all__ = ["ErrorNode", "decode_error", "encode_error", "traceback_of"]

TRACEBACK_LIMIT = 8 * 1024
MESSAGE_LIMIT = 32 * 1024
CHAIN_DEPTH = 4
GROUP_DEPTH = 8

_TRACEBACK = "__perdure_traceback__"
_OWN_STATE = frozenset({"__notes__", _TRACEBACK})


def encode_error(error: BaseException) -> bytes:
    """JSON bytes of an exception. Never raises.

    >>> decode_error(encode_error(KeyError("a")))
    KeyError('a')
    """
    try:
        return to_bytes(_written(error, 0))
    except (Refusal, RecursionError):
        bare = {"module": module_of(type(error)), "name": type(error).__qualname__, "message": _clean(_message(error))}
        return to_bytes(bare | {"args": [{"$shown": bare["message"]}]})


def decode_error(data: bytes) -> BaseException:
    """The exception, or what stands in for it. Never raises; bytes that hold no exception give a `NotRestorable`.

    >>> decode_error(b'{"module":"gone","name":"Boom","message":"bang","args":[]}').type_name
    'gone.Boom'
    """
    try:
        return _read(from_bytes(data))
    except Exception as problem:  # noqa: BLE001 - bytes may hold anything, and the classes are foreign
        return NotRestorable(f"a stored error cannot be read: {getattr(problem, 'reason', problem)}")


def traceback_of(error: BaseException) -> str:
    """The traceback as text, innermost frames last, at most 8 KiB: of a live exception, or kept by a rebuilt one."""
    kept = getattr(error, "traceback_text", "") if isinstance(error, StepError) else error.__dict__.get(_TRACEBACK, "")
    lines = list(_frames(error))
    text = (kept if isinstance(kept, str) else "") + "".join(lines)
    return text if len(text) <= TRACEBACK_LIMIT else "...\n" + text[-TRACEBACK_LIMIT + 4 :]


def _frames(error: BaseException) -> Iterator[str]:
    # Without source lines: those are read from files, and the core reads none.
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        yield f'  File "{code.co_filename}", line {line}, in {code.co_qualname}\n'


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _written(error: BaseException, depth: int) -> dict[str, Any]:
    kind = type(error)
    args, reduced = _reduced(error)
    plain: dict[str, Any] = {"module": module_of(kind), "name": kind.__qualname__, "message": _clean(_message(error))}
    plain["args"] = [store(each) for each in args]
    if state := {key: kept for key, value in _state(error, reduced) if (kept := store(value, or_none=True)) is not None}:
        plain["state"] = state
    if notes := [_clean(note) for note in getattr(error, "__notes__", ()) if isinstance(note, str)]:
        plain["notes"] = notes
    if text := traceback_of(error):
        plain["traceback"] = _clean(text)
    if isinstance(error, BaseExceptionGroup):
        plain["args"] = plain["args"][:1]
        plain["members"] = [_written(member, depth + 1) for member in error.exceptions] if depth < GROUP_DEPTH else []
    if depth < CHAIN_DEPTH:
        if error.__cause__ is not None:
            plain["cause"] = _written(error.__cause__, depth + 1)
        if error.__context__ is not None and error.__context__ is not error.__cause__ and not error.__suppress_context__:
            plain["context"] = _written(error.__context__, depth + 1)
    if error.__suppress_context__:
        plain["suppress"] = True
    return plain


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - whatever foreign code raises
        return f"<its message cannot be shown: {type(problem).__name__}>"


def _clean(text: str) -> str:
    """Text that is Unicode and of bounded length."""
    return str(text)[:MESSAGE_LIMIT].encode("utf-8", "backslashreplace").decode()


def _builtin_base(kind: type) -> type[BaseException]:
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and issubclass(base, BaseException))


def _reduced(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and state as the built-in base pickles them: only it knows an OSError's file name, which is not in `args`."""
    try:
        reduced: Any = _builtin_base(type(error)).__reduce__(error)
        state = reduced[2] if len(reduced) > 2 and isinstance(reduced[2], dict) else {}
        return tuple(reduced[1]), state
    except Exception:  # noqa: BLE001 - whatever foreign code raises
        return tuple(error.args), {}


def _state(error: BaseException, reduced: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Attributes beyond the arguments, by name: of the instance's dictionary, of slots, and of the built-in base."""
    found = {**reduced, **error.__dict__}
    for base in type(error).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and name not in found:
                try:
                    found[name] = getattr(error, name)
                except Exception:  # not set  # noqa: BLE001, S112 - an attribute that is not set
                    continue
    return ((name, value) for name, value in found.items() if isinstance(name, str) and name not in _OWN_STATE)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(plain: Any) -> BaseException:
    if not isinstance(plain, dict) or not isinstance(plain.get("name"), str) or not isinstance(plain.get("module"), str):
        raise Refusal("is no error")
    error = _rebuilt(plain) or _stand_in(plain)
    text = plain.get("traceback")
    if isinstance(text, str) and not isinstance(error, StepError):
        error.__dict__[_TRACEBACK] = text
    if notes := [note for note in _items(plain, "notes") if isinstance(note, str)]:
        error.__dict__["__notes__"] = notes
    for name in ("cause", "context"):
        if name in plain:
            _set(error, f"__{name}__", _read(plain[name]))
    _set(error, "__suppress_context__", plain.get("suppress") is True)
    return error


def _items(plain: dict[str, Any], name: str) -> list[Any]:
    items = plain.get(name)
    return items if isinstance(items, list) else []


def _rebuilt(plain: dict[str, Any]) -> BaseException | None:
    """The exception itself; None when its class is not loaded, is no exception, or would tell another message."""
    kind = find_class(plain["module"], plain["name"])
    if kind is None or not issubclass(kind, BaseException):
        return None
    args = tuple(restore(each) for each in _items(plain, "args"))
    if issubclass(kind, BaseExceptionGroup):
        args = (*args[:1], [_read(member) for member in _items(plain, "members")])
    state = plain.get("state")
    message = plain.get("message")
    try:
        base = _builtin_base(kind)
        error: Any = base.__new__(kind, *args)
        if not isinstance(error, kind):
            return None
        base.__init__(error, *args)
        for name, value in (state if isinstance(state, dict) else {}).items():
            _set(error, name, restore(value))
        return error if _clean(_message(error)) == message else None
    except Exception:  # noqa: BLE001 - whatever foreign code raises
        return None


def _set(error: BaseException, name: str, value: Any) -> None:
    """As `setattr`, but not the class's own `__setattr__`. What has become read-only is left as the class has it."""
    try:
        object.__setattr__(error, name, value)
    except (AttributeError, TypeError):
        return


def _stand_in(plain: dict[str, Any]) -> StepError:
    name = f"{plain['module']}.{plain['name']}"
    state = plain.get("state")
    data = {key: restore(value) for key, value in state.items()} if isinstance(state, dict) else {}
    if args := [restore(each) for each in _items(plain, "args")]:
        data["args"] = args
    message = plain.get("message")
    text = plain.get("traceback")
    return StepError(
        message if isinstance(message, str) else name,
        type_name=name,
        data=data or None,
        traceback_text=text if isinstance(text, str) else "",
    )


class ErrorNode(Node):
    """An exception as a value (`-> ValueError`, the results of a `gather` that returns exceptions), with its subclasses."""

    shapes = frozenset({"object"})

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.label = name_of(kind)

    def dump(self, value: Any) -> Any:
        if not isinstance(value, self.kind):
            raise self.refuse_value(value)
        plain = from_bytes(encode_error(value))
        if not isinstance(_read(plain), self.kind):
            raise Refusal(
                f"is a {name_of(type(value))}, which cannot be rebuilt as {self.label}",
                "annotate Exception, or define its class at module level",
            )
        return plain

    def load(self, plain: Any) -> Any:
        error = _read(plain)
        if not isinstance(error, self.kind):
            raise Refusal(f"is stored as {plain['module']}.{plain['name']}, which is no {self.label} here")
        return error

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"module": {"type": "string"}, "name": {"type": "string"}},
            "required": ["module", "name"],
        }
