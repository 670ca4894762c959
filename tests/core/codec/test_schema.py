"""Annotated values: the trip, the refusals and their paths, data of older code, JSON schemas."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import pathlib
import sys
import typing
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, NewType, Optional, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import annotated_types
import msgspec
import pydantic
import pytest

from perdure.core.codec import Schema, schema_of, validate
from perdure.core.errors import NotRestorable, NotStorable
from tests.core.codec import samples as s

WHEN = dt.datetime(2026, 3, 1, 12, 30, 0, 5, tzinfo=dt.UTC)
BERLIN = ZoneInfo("Europe/Berlin")
UserId = NewType("UserId", int)
Bound = TypeVar("Bound", bound=s.Hit)
Either = TypeVar("Either", int, str)


def trip(annotation: Any, value: Any) -> Any:
    """Out and back, checked: equal, of the same types, the same bytes again, and valid under the JSON schema."""
    schema: Schema[Any] = schema_of(annotation)
    data = schema.encode(value)
    back = schema.decode(data)
    assert type(back) is type(value)
    assert back == value
    assert schema.encode(back) == data
    assert validate(msgspec.json.decode(data), schema.json_schema()) == []
    return back


def _named(each: Any) -> str:
    """A test's id: the same in every process, so nothing whose order or address differs between them."""
    try:
        text = repr(each)
    except ValueError:  # more digits than the interpreter writes
        return "huge"
    return type(each).__name__ if "{" in text or " at 0x" in text else text[:60]


GOOD: list[tuple[Any, Any]] = [
    (Any, {"a": [1, 2.5, None, True, "x", {"b": []}]}),
    (object, [1]),
    (None, None),
    (bool, True),
    (int, -(2**70)),
    (float, -0.0),
    (float, 3),
    (str, "é\x00\U0001f600"),
    (dict, {"a": 1}),
    (list, [1, "a"]),
    (list[str], ["a"]),
    (dict[str, Any], {"a": [1]}),
    (dict[str, list[int]], {"a": [1]}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[UUID, int], {UUID(int=5): 1}),
    (dict[s.Color, int], {s.Color.RED: 1}),
    (dict[s.Level, int], {s.Level.HIGH: 1}),
    (dict[dt.date, int], {dt.date(2026, 1, 1): 1}),
    (dict[Literal["a", "b"], int], {"a": 1}),
    (Mapping[str, int], {"a": 1}),
    (Sequence[int], [1]),
    (collections.OrderedDict[str, int], collections.OrderedDict(b=1, a=2)),
    (collections.Counter[str], collections.Counter("aab")),
    (collections.deque[int], collections.deque([1, 2])),
    (set[int], {3, 1, 2}),
    (frozenset[str], frozenset("abc")),
    (set, {1, 2}),
    (tuple, (1, "a")),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[()], ()),
    (typing.List[int], [1]),  # noqa: UP006 - both spellings are in use
    (typing.Dict[str, int], {"a": 1}),  # noqa: UP006
    (Optional[int], None),
    (int | str | None, "a"),
    (int | float, 2),
    (int | float, 2.0),
    (str | list[int], [1]),
    (list[int] | list[str], ["a"]),
    (str | dt.date, "2026-01-01"),
    (str | dt.date, dt.date(2026, 1, 1)),
    (dt.date | dt.datetime, WHEN),
    (bytes | str, b"abc"),
    (dict | s.Hit, {"$type": "tests.core.codec.samples.Hit", "value": {"url": "u"}}),
    (dict | s.Hit, s.Hit("u")),
    (dict[str, Any] | s.Hit | None, s.Hit("u")),
    (Any | s.Hit, s.Hit("u")),
    (list[s.Hit] | s.Hit, [s.Hit("u")]),
    (s.Hit | s.Point, s.Point(1, 2)),
    (s.Hit | s.RichHit, s.RichHit("u", body="b")),
    (s.Hit | s.User | s.Event | s.Track | None, s.User(name="a")),
    (s.Hit | s.User | s.Event | s.Track | None, None),
    (s.Box[int] | s.Box[str], s.Box("a")),
    (list[s.Hit | s.Point], [s.Hit("u"), s.Point(1)]),
    (set[int] | list[int] | tuple[int, ...], {1}),
    (set[int] | list[int] | tuple[int, ...], [1]),
    (set[int] | list[int] | tuple[int, ...], (1,)),
    (Literal["a", 1, True, None], True),
    (Literal["a", 1], 1),
    (Literal["a", "b"], "b"),
    (Literal[s.Color.RED], s.Color.RED),
    (s.Color, s.Color.RED),
    (s.Level, s.Level.HIGH),
    (s.Word, s.Word.NO),
    (s.Odd, s.Odd.PAIR),
    (s.Permission, s.Permission.READ | s.Permission.WRITE),
    (s.Permission, s.Permission(0)),
    (dt.datetime, WHEN),
    (dt.datetime, dt.datetime(2026, 3, 1)),
    (dt.datetime, dt.datetime(2026, 3, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30)))),
    (dt.datetime, dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)),
    (dt.datetime, dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)),
    (dt.datetime, dt.datetime(2026, 10, 25, 2, 30, fold=1)),
    (dt.date, dt.date.min),
    (dt.time, dt.time(1, 2, 3, 4)),
    (dt.time, dt.time(1, 2, tzinfo=BERLIN)),
    (dt.timedelta, dt.timedelta(days=-3, microseconds=7)),
    (UUID, UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("-1E+500")),
    (Fraction, Fraction(1, 3)),
    (bytes, b"\x00\xff"),
    (bytearray, bytearray(b"ab")),
    (pathlib.Path, pathlib.Path("/a/b")),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b")),
    (IPv4Address, IPv4Address("10.0.0.1")),
    (ZoneInfo, BERLIN),
    (UserId, UserId(3)),
    (Annotated[list[int], "anything"], [1]),
    (Annotated[int, annotated_types.Ge(0)], 3),
    (Bound, s.Hit("u")),
    (Either, "a"),
    (s.Hit, s.Hit("u", WHEN, 0.5)),
    (s.Page, s.Page([s.Hit("u")], {s.Color.RED, s.Color.BLUE}, {"a": Decimal("1.0")}, (1, 2))),
    (s.RichHit, s.RichHit("u", body="b")),
    (s.Point, s.Point(1, 2)),
    (s.Counted, s.Counted(4)),
    (s.Box[int], s.Box(1, [2])),
    (s.Box[dt.date], s.Box(dt.date(2026, 1, 1))),
    (s.Box, s.Box({"a": 1})),
    (s.DateBox, s.DateBox(dt.date(2026, 1, 1), [dt.date(2026, 1, 2)], "x")),
    (s.Tree, s.Tree("a", [s.Tree("b"), s.Tree("c", parent=s.Tree("d"))])),
    (s.Pair, s.Pair(1, dt.date(2026, 1, 1))),
    (s.Old, s.Old(1, "x")),
    (s.Movie, {"title": "a", "when": dt.date(2026, 1, 1), "other": [1]}),
    (s.Event, s.Event("a", dt.date(2026, 1, 1), ["x"])),
    (s.Checked, s.Checked(5)),
    (s.Track, s.Track("a", 3, ["b"])),
    (s.Key, s.Key("a")),
    (s.User, s.User(name="a", born=dt.date(2026, 1, 1), scores=[1.5])),
    (s.Admin, s.Admin(name="a", rights={"x", "y"})),
    (s.Team, s.Team(lead=s.User(name="a"), members={"b": s.User(name="b")})),
    (s.Private, s.Private(name="a")),
    (s.Excluded, s.Excluded(name="a")),
    (s.Loose, s.Loose(data={"a": [1, True]})),
    (s.Aliased, s.Aliased(firstName="a")),
    (s.Names, s.Names(["a"])),
    (s.Spot, s.Spot(1, 2)),
    (pydantic.AnyUrl, pydantic.AnyUrl("https://example.org/a")),
    (list[s.User | s.Hit | None], [s.User(name="a"), None, s.Hit("u")]),
]


@pytest.mark.parametrize(("annotation", "value"), GOOD, ids=_named)
def test_what_is_accepted_comes_back_equal_and_of_the_same_type(annotation: Any, value: Any) -> None:
    trip(annotation, value)


def test_fold_zone_and_hash_survive() -> None:
    late = dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    back = trip(dt.datetime, late)
    assert back.tzinfo is BERLIN
    assert back.fold == 1
    assert back.utcoffset() == dt.timedelta(hours=1)
    assert str(trip(Decimal, Decimal("1.10"))) == "1.10"
    assert hash(trip(s.Key, s.Key("a"))) == hash(s.Key("a"))
    assert trip(s.Counted, s.Counted(4)).count == 8


def test_a_record_comes_back_with_its_state_not_with_its_constructors() -> None:
    counted = s.Counted(4)
    counted.count = 5
    assert trip(s.Counted, counted).count == 5


def test_a_cached_property_is_no_field() -> None:
    cached = s.Cached("a")
    assert cached.loud == "A"
    assert trip(s.Cached, cached).loud == "A"


BAD: list[tuple[Any, Any, str]] = [
    (Any, (1,), "result is a tuple"),
    (Any, {"a": [1, {2}]}, "result.a[1] is a set"),
    (Any, {"a": {1: 2}}, "result.a has an int (1) as a key"),
    (Any, {"a b": float("nan")}, "result['a b'] is nan"),
    (float, float("inf"), "result is inf"),
    (list[float], [1.0, float("-inf")], "result[1] is -inf"),
    (list[str], ["a", s.Word.YES], "result[1] is a tests.core.codec.samples.Word"),
    (Any, s.Word.YES, "result is a tests.core.codec.samples.Word"),
    (Any, collections.OrderedDict(a=1), "result is a collections.OrderedDict"),
    (Any, s.Hit("u"), "samples.Hit"),
    (Any, dt.date(2026, 1, 1), "datetime.date"),
    (int, True, "a bool (True)"),
    (int, 10**4000, "more than 4000 digits"),
    (Any, [10**5000], "result[0] is an int of more than 4000 digits"),
    (float, True, "a bool"),
    (str, 1, "an int (1)"),
    (str, "\ud800", "half a character"),
    (dict[str, str], {"a": "b\udfff"}, "result.a holds half a character"),
    (dict[str, str], {"\ud800": "b"}, "a key with half a character"),
    (tuple[int, str], (1,), "has 1 items"),
    (tuple[int, str], [1, "a"], "a list"),
    (set[int], {1, "a"}, "a str ('a')"),
    (dict[int, str], {"1": "a"}, "a str ('1')"),
    (s.Hit, s.RichHit("u", body="kept"), "samples.RichHit"),
    (s.Page, s.Page([s.Hit("u"), s.Hit("v", when="monday")]), "result.hits[1].when is a str ('monday')"),  # type: ignore[arg-type]
    (s.Page, s.Page([s.RichHit("u")]), "result.hits[0]"),
    (s.Hidden, s.Hidden("a"), "carries 'secret'"),
    (s.Hit, {"url": "a"}, "a dict"),
    (s.Hit | s.Point, s.RichHit("u"), "samples.RichHit"),
    (s.Color, "red", "a str ('red')"),
    (Literal[1], True, "a bool"),
    (Literal["a"], "b", "a str ('b')"),
    (Decimal, Decimal("NaN"), "NaN"),
    (dt.date, WHEN, "a datetime.datetime"),
    (dt.datetime, dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "XYZ")), "XYZ"),
    (collections.deque[int], collections.deque([1], maxlen=3), "maxlen"),
    (s.Movie, {"year": 1}, "lacks the key 'title'"),
    (s.Movie, {"title": "a", "more": (1,)}, "result.more is a tuple"),
    (s.User, s.Admin(name="a"), "samples.Admin"),
    (s.Team, s.Team(lead=s.Admin(name="a", rights={"x"})), "result.lead"),
    (s.Loose, s.Loose(data=(1, 2)), "result.data"),
    (s.Loose, s.Loose(data=float("nan")), "a float (nan)"),
    (s.Loose, s.Loose(data=s.Level.LOW), "result.data"),
    (s.Excluded, s.Excluded(name="a", password="p"), "result.password"),
    (s.Changing, s.Changing(text="a"), "result.text"),
    (s.User, s.User.model_construct(name=5), "result"),
    (s.User, s.User(name="a", scores=[float("inf")]), "result.scores[0] is inf"),
    (s.Track, s.Track(title=1), "result.title is an int"),  # type: ignore[arg-type]
    (s.Event, s.Event(event_name=b"a"), "result.event_name is a bytes"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("annotation", "value", "text"), BAD, ids=_named)
def test_p70_what_does_not_fit_is_refused_when_it_is_saved(annotation: Any, value: Any, text: str) -> None:
    with pytest.raises(NotStorable) as caught:
        schema_of(annotation).encode(value, where="return value of search")
    assert text in str(caught.value)
    assert "return value of search: result" in str(caught.value)


def test_private_state_of_a_model_is_refused() -> None:
    model = s.Private(name="a")
    model._token = "t"
    with pytest.raises(NotStorable, match="_token"):
        schema_of(s.Private).encode(model)


@pytest.mark.parametrize("value", [float("nan"), (1, 2), {1: 2}, {"a": [(1,)]}])
def test_s29_unannotated_values_that_would_change_are_refused_with_advice(value: Any) -> None:
    with pytest.raises(NotStorable) as caught:
        schema_of(Any).encode(value)
    assert caught.value.hint


def test_s29_advice_names_the_annotation() -> None:
    with pytest.raises(NotStorable, match="add a return annotation"):
        schema_of(Any).encode((1, 2))


class Abstract(typing.Protocol):
    def read(self) -> str: ...


@dataclasses.dataclass
class Holder:
    pages: list[Connected]


@dataclasses.dataclass
class Connected:
    name: str
    connection: s.Connection


class RequiredButExcluded(pydantic.BaseModel):
    name: str = pydantic.Field(exclude=True)


UNSTORABLE: list[tuple[Any, str]] = [
    (Callable[[int], str], "collections.abc.Callable"),
    (s.Connection, "samples.Connection"),
    (list[s.Connection], "samples.Connection"),
    (Holder, "result.pages.connection is annotated tests.core.codec.samples.Connection"),
    (Generator[int, None, None], "Generator"),
    (AsyncIterator[int], "AsyncIterator"),
    (type[int], "type"),
    (Abstract, "abstract"),
    (complex, "complex"),
    (dict[tuple[int, int], str], "as keys"),
    (s.Tagged, "also a dict"),
    (RequiredButExcluded, "result.name"),
    (Literal[b"a"], "literal"),
]


@pytest.mark.parametrize(("annotation", "text"), UNSTORABLE, ids=_named)
def test_an_annotation_that_can_be_seen_to_be_unstorable_is_refused_at_once(annotation: Any, text: str) -> None:
    with pytest.raises(NotStorable) as caught:
        schema_of(annotation, where="return value of search")
    assert text in str(caught.value)
    assert "return value of search" in str(caught.value)


def test_a_function_that_never_returns_is_not_refused_before_it_does() -> None:
    with pytest.raises(NotStorable):
        schema_of(typing.NoReturn).encode(None)


# ── data of other code ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("annotation", "data", "text"),
    [
        (s.Hit, b'{"when":null,"score":0.0}', "lacks the field 'url'"),
        (s.Hit, b'{"uri":"a"}', "'uri'"),
        (s.Hit, b'{"url":"a","colour":1}', "'colour'"),
        (s.Page, b'{"hits":[{"url":1}]}', "result.hits[0].url"),
        (s.Hit, b"null", "None"),
        (s.Hit, b"", "no readable JSON"),
        (s.Hit, b"{", "no readable JSON"),
        (int, b'"a"', "result is stored as a str ('a')"),
        (int, b"1.0", "a float"),
        (s.Color, b'"green"', "no member"),
        (s.User, b"{}", "name"),
        (s.User, b'{"name":"a","nick":"b"}', "'nick'"),
        (s.Team, b'{"lead":{"name":"a","nick":"b"},"members":{}}', "'nick'"),
        (s.Hit | s.Point, b'{"$type":"other.Hit","value":{}}', "other.Hit"),
        (s.Hit | s.Point, b'{"url":"a"}', "$type"),
        (dt.date, b'"yesterday"', "yesterday"),
        (set[int], b'["a"]', "result[0]"),
        (s.Checked, b'{"value":5000}', "too large"),
        (Exception, b'{"module":"builtins","name":"SystemExit","message":"1","args":[1]}', "SystemExit"),
        (
            s.Tree,
            b'{"name":"a","children":[{"name":"b","children":[{}],"parent":null}],"parent":null}',
            "children[0].children[0]",
        ),
    ],
)
def test_p12_what_does_not_fit_any_more_is_an_error_that_names_type_and_path(annotation: Any, data: bytes, text: str) -> None:
    with pytest.raises(NotRestorable) as caught:
        schema_of(annotation).decode(data)
    assert text in str(caught.value)
    assert schema_of(annotation).label in str(caught.value)


def test_p12_a_moved_class_is_named() -> None:
    data = schema_of(s.Hit | s.Point).encode(s.Point(1)).replace(b"samples.Point", b"shapes.Point")
    with pytest.raises(NotRestorable, match=r"shapes\.Point"):
        schema_of(s.Hit | s.Point).decode(data)


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        (s.Hit, b'{"url":"a"}', s.Hit("a")),
        (s.Page, b'{"hits":[]}', s.Page([])),
        (s.Event, b'{"eventName":"a"}', s.Event("a")),
        (s.Track, b'{"title":"a"}', s.Track("a")),
        (s.Pair, b'{"left":1}', s.Pair(1)),
        (s.User, b'{"name":"a"}', s.User(name="a")),
    ],
)
def test_x19_a_field_added_with_a_default_reads_older_data(annotation: Any, data: bytes, value: Any) -> None:
    assert schema_of(annotation).decode(data) == value


def test_defaults_of_older_data_are_not_shared() -> None:
    one, other = (schema_of(s.Page).decode(b'{"hits":[]}') for _ in range(2))
    assert one.prices is not other.prices


# ── shapes, names, aliases ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_stored_forms() -> None:
    def stored(annotation: Any, value: Any) -> bytes:
        return schema_of(annotation).encode(value)

    assert stored(s.Hit | s.Point, s.Point(1)) == b'{"$type":"tests.core.codec.samples.Point","value":{"x":1,"y":0}}'
    assert stored(s.Point | None, s.Point(1)) == b'{"x":1,"y":0}'
    assert stored(str | dt.date, "a") == b'"a"'
    assert stored(str | dt.date, dt.date(2026, 1, 1)) == b'{"$type":"datetime.date","value":"2026-01-01"}'
    assert stored(set[str], {"b", "a"}) == b'["a","b"]'
    assert stored(dt.datetime, dt.datetime(2026, 3, 1, tzinfo=BERLIN)) == b'"2026-03-01T00:00:00+01:00[Europe/Berlin]"'
    assert stored(s.Event, s.Event("a")) == b'{"eventName":"a","atDay":null,"tags":[]}'


def test_schemas_are_cached_and_plain_ones_known() -> None:
    assert schema_of(list[int]) is schema_of(list[int])
    assert schema_of(Any).is_plain
    assert schema_of(dict[str, list[int]] | None).is_plain
    assert not schema_of(dict[int, str]).is_plain
    assert schema_of(Annotated[int, ["unhashable"]]).encode(1) == b"1"


def test_true_and_one_are_not_confused_by_the_cache() -> None:
    assert schema_of(Literal[1]).encode(1) == b"1"
    assert schema_of(Literal[True]).encode(True) == b"true"


def test_plain_values_must_not_be_too_deep_or_contain_themselves() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = None
    for _ in range(5000):
        deep = [deep]
    tree = s.Tree("a")
    tree.children.append(tree)
    long = s.Tree("end")
    for _ in range(120):
        long = s.Tree("a", [long])
    for annotation, value in ((Any, loop), (Any, deep), (s.Tree, tree), (s.Tree, long)):
        with pytest.raises(NotStorable, match="deep"):
            schema_of(annotation).encode(value)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the `type` statement")
def test_type_statements() -> None:
    trip(s.Json, {"a": [1, {"b": None}], "c": "d"})  # type: ignore[attr-defined]
    trip(s.Pairs[int], [(1, 2)])  # type: ignore[attr-defined]
    trip(s.Pairs[dt.date], [(dt.date.min, dt.date.max)])  # type: ignore[attr-defined]
    with pytest.raises(NotStorable, match=r"result\.a\[0\]"):
        schema_of(s.Json).encode({"a": [(1,)]})  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the `type` statement")
def test_a_recursive_alias_is_described_without_end() -> None:
    described = schema_of(s.Json).json_schema()  # type: ignore[attr-defined]
    assert validate({"a": [1, {"b": [None, "c"]}]}, described) == []
    assert described["$defs"]


def test_a_typing_extensions_alias() -> None:
    extensions = pytest.importorskip("typing_extensions")
    trip(extensions.TypeAliasType("Dates", list[dt.date]), [dt.date(2026, 1, 1)])


def test_a_record_with_missing_attribute_is_refused() -> None:
    point = object.__new__(s.Hit)
    point.__dict__["when"] = None
    with pytest.raises(NotStorable, match=r"result\.url is a field without a value"):
        schema_of(s.Hit).encode(point)


def test_two_classes_of_one_name_in_a_union_are_told_apart() -> None:
    one = dataclasses.make_dataclass("Twin", [("x", int)])
    other = dataclasses.make_dataclass("Twin", [("y", int)])
    schema = schema_of(one | other)
    assert schema.decode(schema.encode(other(2))) == other(2)
    assert schema.decode(schema.encode(one(1))) == one(1)


# ── exceptions as values ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("annotation", [ValueError, Exception, BaseException, int | ValueError, list[int | Exception]])
def test_exceptions_are_values(annotation: Any) -> None:
    value: Any = UnicodeDecodeError("utf-8", b"ab", 0, 1, "bad")
    wrapped = [1, value] if annotation == list[int | Exception] else value
    back = schema_of(annotation).decode(schema_of(annotation).encode(wrapped))
    error = back[1] if isinstance(back, list) else back
    assert type(error) is UnicodeDecodeError
    assert error.args == value.args


def test_an_exception_of_a_lost_class_is_one_only_where_any_will_do() -> None:
    class Local(ValueError):
        pass

    schema: Any = schema_of(Exception)
    assert schema.decode(schema.encode(Local("a"))).type_name.endswith("Local")
    with pytest.raises(NotStorable, match="cannot be rebuilt"):
        schema_of(ValueError).encode(Local("a"))
    with pytest.raises(NotStorable, match="KeyError"):
        schema_of(ValueError).encode(KeyError("a"))


# ── JSON schemas ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_schemas_for_people() -> None:
    assert schema_of(bool).json_schema() == {"type": "boolean"}
    assert schema_of(Literal["a", "b"]).json_schema() == {"enum": ["a", "b"]}
    assert schema_of(s.Color).json_schema() == {"enum": ["red", "blue"], "title": "Color"}
    hit = schema_of(s.Hit).json_schema()
    assert hit["$ref"] == "#/$defs/tests.core.codec.samples.Hit"
    definition = hit["$defs"]["tests.core.codec.samples.Hit"]
    assert definition["required"] == ["url"]
    assert definition["properties"]["score"] == {"type": "number", "default": 0.0}
    assert schema_of(s.User).json_schema()["properties"]["name"] == {"title": "Name", "type": "string"}
    bounded = schema_of(Annotated[int, pydantic.Field(ge=1, le=5, description="stars")]).json_schema()
    assert bounded == {"type": "integer", "minimum": 1, "maximum": 5, "description": "stars"}


def test_models_inside_other_types_keep_their_definitions_apart() -> None:
    schema = schema_of(list[s.Team] | s.Hit).json_schema()
    assert validate([{"lead": {"name": "a"}, "members": {}}], schema) == []
    assert validate([{"lead": {}, "members": {}}], schema) != []
