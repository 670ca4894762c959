"""Exceptions out and back: the same class, arguments, state, message; or a stand-in that says what it was."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from perdure.core.codec import decode_error, encode_error, traceback_of
from perdure.core.codec.attachments import Shown, restore, store
from perdure.core.errors import DuplicateRun, InDoubt, NotRestorable, NotStorable, PerdureError, StepError
from tests.core.codec import samples as s


def trip(error: BaseException) -> Any:
    """Out and back, and once more: a second trip changes nothing."""
    back: Any = decode_error(encode_error(error))
    again = decode_error(encode_error(back))
    assert type(again) is type(back)
    assert repr(again) == repr(back)
    assert isinstance(back, BaseExceptionGroup) or again.args == back.args
    return back


def validation_error() -> Exception:
    try:
        s.User.model_validate({})
    except pydantic.ValidationError as problem:
        return problem
    raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a"),
        ValueError(),
        ValueError("a", 2, None),
        KeyError("a"),
        KeyError((1, 2)),
        IndexError(3),
        TimeoutError("late"),
        asyncio.CancelledError(),
        asyncio.CancelledError("why"),
        TimeoutError(),
        KeyboardInterrupt(),
        SystemExit(3),
        StopIteration(7),
        OSError(2, "No such file", "/a/b"),
        FileNotFoundError(2, "No such file", "/a/b", None, "/c"),
        ConnectionResetError(104, "reset"),
        OSError("only text"),
        UnicodeDecodeError("utf-8", b"a\xffb", 1, 2, "invalid"),
        UnicodeEncodeError("ascii", "é", 0, 1, "no"),
        SyntaxError("bad", ("f.py", 1, 2, "text", 1, 3)),
        ImportError("none", name="x", path="/y"),
        AttributeError("none", name="x"),
        ZeroDivisionError("division by zero"),
        ValueError({"a": (1, {2})}, b"x", uuid.UUID(int=1), Decimal("1.0"), date(2026, 1, 1)),
        json.JSONDecodeError("bad", "doc", 1),
        subprocess.CalledProcessError(1, ["a", "b"], b"out"),
        asyncio.IncompleteReadError(b"ab", 5),
        s.TwoRequired("a", 2),
        s.NoSuper(5, detail="x"),
        s.Disk("/tmp"),
        s.Slotted(7),
        s.Explodes("x"),
        NotStorable("no", run="r", step="s", hint="h"),
        DuplicateRun("twice"),
        InDoubt("?", step="pay"),
        StepError("m", type_name="a.B", data={"a": 1}, traceback_text="tb"),
        ExceptionGroup("two", [ValueError("a"), s.TwoRequired("b", 1)]),
        BaseExceptionGroup("base", [asyncio.CancelledError(), ExceptionGroup("in", [KeyError("k")])]),
    ],
    ids=repr,
)
def test_an_exception_comes_back_as_it_was(error: BaseException) -> None:
    back = trip(error)
    assert type(back) is type(error)
    if not isinstance(error, s.Explodes):  # it has no text
        assert str(back) == str(error)
    if not isinstance(error, BaseExceptionGroup):
        assert back.args == error.args
        state = {name: value for name, value in back.__dict__.items() if not name.startswith("__")}
        assert state == error.__dict__
    else:
        assert [type(each) for each in back.exceptions] == [type(each) for each in error.exceptions]


def test_p68_a_class_with_two_required_arguments_reaches_its_except_branch() -> None:
    def raised() -> BaseException:
        try:
            raise s.TwoRequired("card", 2)
        except s.TwoRequired as problem:
            return problem

    stored = encode_error(raised())
    try:
        raise decode_error(stored)
    except s.TwoRequired as problem:
        assert (problem.first, problem.second, str(problem)) == ("card", 2, "card and 2")


def test_p68_no_constructor_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_error(s.TwoRequired("a", 1))

    def never(*_: Any) -> None:
        raise AssertionError("the constructor ran")

    monkeypatch.setattr(s.TwoRequired, "__init__", never)
    monkeypatch.setattr(s.TwoRequired, "__new__", never)
    monkeypatch.setattr(s.TwoRequired, "__setattr__", never)
    assert isinstance(decode_error(data), s.TwoRequired)


def test_errno_and_fields_of_builtin_classes_survive() -> None:
    error = trip(FileNotFoundError(2, "No such file", "/a/b"))
    assert (error.errno, error.strerror, error.filename) == (2, "No such file", "/a/b")
    decode = trip(UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid"))
    assert (decode.encoding, decode.object, decode.start) == ("utf-8", b"a\xff", 1)
    assert trip(ImportError("x", name="n")).name == "n"
    assert trip(s.Disk("/tmp")).errno == 28
    assert trip(SystemExit(3)).code == 3
    assert trip(StopIteration(7)).value == 7


def test_perdure_s_own_errors_keep_their_fields() -> None:
    error = trip(NotStorable("no", run="r", step="s", hint="h"))
    assert (error.run, error.step, error.hint, error.message, error.code) == ("r", "s", "h", "no", "PRD-301")
    assert isinstance(error, PerdureError)


def test_notes_cause_and_context_survive() -> None:
    caught: Any = None
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            outer = ValueError("outer")
            outer.add_note("look here")
            raise outer from inner
    except ValueError as problem:
        caught = problem
    back = trip(caught)
    assert back.__notes__ == ["look here"]
    assert isinstance(back.__cause__, KeyError)
    assert back.__suppress_context__

    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer")  # noqa: B904 - an implicit context is what is tested
    except ValueError as problem:
        caught = problem
    back = trip(caught)
    assert isinstance(back.__context__, KeyError)
    assert back.__cause__ is None


def test_a_chain_that_goes_in_circles_is_cut() -> None:
    one, other = ValueError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    back, length = trip(one), 0
    while back is not None:
        back, length = back.__cause__, length + 1
    assert length == 5


def test_the_traceback_is_kept_as_text_and_grows_with_further_raises() -> None:
    def fail() -> None:
        raise ValueError("deep")

    try:
        fail()
    except ValueError as problem:
        back: Any = decode_error(encode_error(problem))
    assert back.__traceback__ is None
    first = traceback_of(back)
    here = "in test_the_traceback_is_kept_as_text_and_grows_with_further_raises\n"
    assert first.count(here) == 1
    assert "in test_the_traceback_is_kept_as_text_and_grows_with_further_raises.<locals>.fail" in first
    try:
        raise back
    except ValueError as problem:
        assert traceback_of(problem).count(here) == 2, traceback_of(problem)
        assert "__perdure_traceback__" not in encode_error(problem).decode()


def test_a_long_traceback_and_message_are_bounded() -> None:
    def down(levels: int) -> None:
        if not levels:
            raise ValueError("x" * 100_000)
        down(levels - 1)

    try:
        down(300)
    except ValueError as problem:
        data = encode_error(problem)
    assert len(msgspec.json.decode(data)["traceback"]) <= 8 * 1024
    assert len(data) < 150_000


def test_what_cannot_be_stored_of_an_exception_is_left_out_and_the_class_stays() -> None:
    back = trip(s.WithClient("down", s.Connection()))
    assert type(back) is s.WithClient
    assert (str(back), back.status) == ("down", 503)
    with pytest.raises(AttributeError):
        back.client


def test_arguments_that_cannot_be_stored_stand_as_their_text() -> None:
    thing = s.Connection()
    back = trip(KeyError(thing))
    assert type(back) is KeyError
    assert str(back) == str(KeyError(thing))
    assert isinstance(back.args[0], Shown)
    assert back.args[0].type_name == "tests.core.codec.samples.Connection"
    assert str(trip(ValueError("a", thing))) == str(ValueError("a", thing))


def test_a_message_that_would_be_lost_gives_a_stand_in() -> None:
    back = trip(s.ShowsClient(s.Connection()))
    assert type(back) is StepError
    assert back.type_name == "tests.core.codec.samples.ShowsClient"
    assert back.message.startswith("failed at <tests.core.codec.samples.Connection")


def test_a_pydantic_validation_error_gives_a_stand_in_with_its_message() -> None:
    problem = validation_error()
    back = trip(problem)
    assert type(back) is StepError
    assert back.type_name.endswith("ValidationError")
    assert back.message == str(problem)


def test_a_class_that_cannot_be_found_gives_a_stand_in() -> None:
    class Local(Exception):
        def __init__(self) -> None:
            super().__init__("m", 2)
            self.more = [1]

    try:
        raise Local
    except Local as problem:
        back = trip(problem)
    assert type(back) is StepError
    assert back.type_name.endswith("Local")
    assert back.message == "('m', 2)"
    assert back.data == {"more": [1], "args": ["m", 2]}
    assert "in test_a_class" in back.traceback_text


def test_a_script_s_class_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main: Any = type(sys)("__main__")
    main.__file__ = "/some/where/agent.py"
    main.Boom = type("Boom", (Exception,), {"__module__": "__main__", "__qualname__": "Boom"})
    monkeypatch.setitem(sys.modules, "__main__", main)
    data = encode_error(main.Boom("x"))
    assert b'"module":"agent"' in data
    assert type(decode_error(data)) is main.Boom


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("builtins", "object"),
        ("builtins", "int"),
        ("os", "path.join"),
        ("this", "c"),
        ("antigravity", "fly"),
        ("builtins", ""),
        ("", "ValueError"),
        ("builtins", "ValueError.__init__"),
        ("tests.core.codec.samples", "Hit"),
        ("tests.core.codec.samples", "json.JSONDecodeError"),
    ],
)
def test_p69_a_tampered_name_makes_nothing_run_or_load(module: str, name: str) -> None:
    before = set(sys.modules)
    data = msgspec.json.encode({"module": module, "name": name, "message": "m", "args": ["echo pwned"], "state": {"a": 1}})
    back = decode_error(data)
    assert type(back) is StepError
    assert back.type_name == f"{module}.{name}"
    assert set(sys.modules) == before


def test_p69_a_module_s_getattr_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy: Any = type(sys)("lazy_module")

    def load(name: str) -> Any:
        raise AssertionError("asked")

    lazy.__getattr__ = load
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    data = b'{"module":"lazy_module","name":"Boom","message":"m","args":[]}'
    assert type(decode_error(data)) is StepError


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[1]", b"{}", b'{"module":1,"name":2}', b"\xff", b'{"module":"a"}', b"[" * 100_000]
)
def test_damaged_bytes_give_a_typed_error_and_raise_nothing(data: bytes) -> None:
    assert isinstance(decode_error(data), NotRestorable)


@pytest.mark.parametrize(
    "extra",
    [
        {"args": "x"},
        {"args": [{"$text": "nothing", "value": 1}]},
        {"args": [{"$items": "nothing", "value": 1}]},
        {"args": [{"$items": "set", "value": [[1]]}]},
        {"args": [{"$pairs": 3}]},
        {"args": [{"$shown": None}]},
        {"state": 5},
        {"state": {"__class__": "x", "__dict__": 1, "args": 7}},
        {"notes": [1], "members": 4, "cause": {"module": "builtins", "name": "KeyError"}},
        {"module": "builtins", "name": "UnicodeDecodeError", "args": [1]},
        {"module": "builtins", "name": "BaseExceptionGroup", "args": []},
    ],
)
def test_tampered_parts_raise_nothing(extra: dict[str, Any]) -> None:
    plain = {"module": "builtins", "name": "ValueError", "message": "m", "args": ["m"]} | extra
    assert isinstance(decode_error(msgspec.json.encode(plain)), BaseException)


def test_lone_surrogates_in_messages_are_written_out() -> None:
    assert "\\ud800" in str(decode_error(encode_error(ValueError("a\ud800"))))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)
carried = st.recursive(
    json_values | st.binary() | st.dates() | st.uuids() | st.sampled_from(["$items", "$text"]),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.integers() | st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    carried
    | st.sets(st.integers() | st.text())
    | st.dictionaries(st.sampled_from(["$items", "$pairs", "$text", "$shown", "a"]), json_values)
)
def test_what_exceptions_carry_comes_back(value: Any) -> None:
    back = restore(store(value))
    assert back == value
    assert type(back) is type(value)


@given(st.text(), st.integers(), st.lists(carried, max_size=3))
def test_any_arguments_come_back(message: str, number: int, more: list[Any]) -> None:
    error = trip(s.TwoRequired(message, number))
    assert (error.first, error.second) == (message, number) or not message.isprintable()
    back = trip(ValueError(message, *more))
    assert back.args == (message, *more) or type(back) is StepError


@given(st.binary(max_size=200) | json_values.map(msgspec.json.encode))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    assert isinstance(decode_error(data), BaseException)
