"""Classes that the codec's tests store. At module level, since stored names are looked up among modules."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import attrs
import msgspec
import pydantic

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Odd(enum.Enum):
    PAIR = (1, 2)
    TEXT = "text"


class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass
class Hit:
    url: str
    when: datetime | None = None
    score: float = 0.0


@dataclasses.dataclass
class Page:
    hits: list[Hit]
    colors: set[Color] = dataclasses.field(default_factory=set)
    prices: dict[str, Decimal] = dataclasses.field(default_factory=dict)
    size: tuple[int, int] = (0, 0)


@dataclasses.dataclass
class RichHit(Hit):
    body: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Counted:
    start: int
    count: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.count = self.start * 2


@dataclasses.dataclass
class Hidden:
    name: str

    def __post_init__(self) -> None:
        self.secret = self.name.upper()


@dataclasses.dataclass
class Cached:
    name: str

    @functools.cached_property
    def loud(self) -> str:
        return self.name.upper()


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class DateBox(Box[date]):
    label: str = ""


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)
    parent: Tree | None = None


@dataclasses.dataclass
class Tagged(dict[str, int]):
    name: str = ""


class Pair(NamedTuple):
    left: int
    right: date | None = None


Old = collections.namedtuple("Old", "a b")


class Movie(TypedDict):
    title: str
    year: NotRequired[int]
    when: NotRequired[date]


class Event(msgspec.Struct, rename="camel"):
    event_name: str
    at_day: date | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class Checked(msgspec.Struct, frozen=True):
    value: int

    def __post_init__(self) -> None:
        if self.value > 1000:
            raise ValueError("too large")


@attrs.define
class Track:
    title: str
    seconds: int = 0
    names: list[str] = attrs.field(factory=list)


@attrs.frozen(cache_hash=True)
class Key:
    name: str


class User(pydantic.BaseModel):
    name: str
    born: date | None = None
    scores: list[float] = []


class Admin(User):
    rights: set[str] = set()


class Team(pydantic.BaseModel):
    lead: User
    members: dict[str, User] = {}


class Private(pydantic.BaseModel):
    name: str
    _token: str = pydantic.PrivateAttr(default="")


class Excluded(pydantic.BaseModel):
    name: str
    password: str = pydantic.Field(default="", exclude=True)


class Loose(pydantic.BaseModel):
    data: Any = None


class Aliased(pydantic.BaseModel):
    first_name: str = pydantic.Field(alias="firstName")


class Changing(pydantic.BaseModel):
    text: str

    @pydantic.field_validator("text")
    @classmethod
    def longer(cls, value: str) -> str:
        return value + "!"


class Names(pydantic.RootModel[list[str]]):
    pass


@pydantic.dataclasses.dataclass
class Spot:
    x: int
    y: int = 0


class TwoRequired(Exception):
    def __init__(self, first: str, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first
        self.second = second


class NoSuper(Exception):
    def __init__(self, code: int, *, detail: str) -> None:
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class WithClient(Exception):
    def __init__(self, message: str, client: Any) -> None:
        super().__init__(message)
        self.client = client
        self.status = 503


class ShowsClient(Exception):
    def __init__(self, client: Any) -> None:
        self.client = client

    def __str__(self) -> str:
        return f"failed at {self.client}"


class Disk(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(28, "No space left", path)
        self.mine = 1


class Slotted(Exception):
    __slots__ = ("extra",)

    def __init__(self, extra: int) -> None:
        super().__init__("slotted")
        self.extra = extra


class Explodes(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Connection:
    def __init__(self) -> None:
        self.socket = object()


if sys.version_info >= (3, 12):
    exec(  # 3.11 cannot parse it
        "type Json = dict[str, Json] | list[Json] | str | int | float | bool | None\ntype Pairs[K] = list[tuple[K, K]]\n",
        globals(),
    )
