"""The self-describing form keeps what msgpack alone would change."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import uuid
import warnings
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.classes import register_class
from tidegate.elements import RowKind
from tidegate.errors import RecordError, StateFormatError
from tidegate.row import Row
from tidegate.serde import codec_for
from tidegate.untyped import PickledValueWarning, SelfDescribing

GOLDEN = Path(__file__).parents[2] / "golden" / "codecs" / "self-describing-1.json"
Same = Callable[[Any, Any], bool]
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
INDIA = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


class Colour(enum.Enum):
    RED = object()


class Size(enum.IntEnum):
    SMALL = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: Any


class Order(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        self.n += 1


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None  # type: ignore[assignment]  # not needed here


@dataclass
class Stranger:
    n: int


class Text(str):
    __slots__ = ()


register_class(Point, name="untyped.point")
register_class(Order, name="untyped.order")
register_class(
    Money,
    name="untyped.money",
    encode=lambda money: (money.cents, {"EUR"}),
    decode=lambda parts: Money(parts[0]),
)

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.fractions()
    | st.uuids()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.sampled_from([BERLIN, INDIA, datetime.UTC]))
    | st.timedeltas()
    | st.complex_numbers(allow_nan=False)
    | st.binary().map(bytearray)
    | st.sampled_from([Colour.RED, Size.SMALL, Access.READ, Access.READ | Access.WRITE])
)
KEYS = st.integers() | st.text(max_size=3) | st.booleans() | st.tuples(st.integers(0, 3), st.text(max_size=2))
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.sets(KEYS, max_size=4)
        | st.frozensets(KEYS, max_size=4)
        | st.builds(Row, inner, inner)
        | st.builds(lambda a, b: Row.of([a, b], ["a", "b"], RowKind.DELETE), inner, inner)
        | st.builds(Point, st.integers(), inner)
        | st.builds(Order, st.integers())
        | st.builds(Money, st.integers())
    ),
    max_leaves=10,
)


@given(values=st.lists(VALUES, max_size=3))
def test_any_value_comes_back_the_same_all_the_way_down(same: Same, values: list[Any]) -> None:
    codec = codec_for(None, pickle="forbid")

    assert same(codec.decode_batch(codec.encode_batch(values)), values)
    assert all(same(codec.decode(codec.encode(value)), value) for value in values)
    assert codec.encode_each(values) == list(map(codec.encode, values))


@given(values=st.lists(st.integers() | st.text(max_size=3) | st.none(), min_size=1))
def test_plain_values_of_any_size_come_back_the_same_one_by_one_and_in_a_list(
    same: Same, values: list[Any]
) -> None:
    codec = SelfDescribing()

    assert same(list(map(codec.decode, codec.encode_each(values))), values)
    assert same(codec.decode(codec.encode(values)), values)


@pytest.mark.parametrize("hour", [0, 1, 2, 3])
@pytest.mark.parametrize("fold", [0, 1])
def test_an_ambiguous_hour_keeps_its_fold_and_zone(hour: int, fold: Literal[0, 1]) -> None:
    codec = SelfDescribing()
    value = datetime.datetime(2025, 10, 26, hour, 30, fold=fold, tzinfo=BERLIN)

    found = codec.decode(codec.encode(value))

    assert (found, found.fold, found.tzinfo, found.utcoffset()) == (value, fold, BERLIN, value.utcoffset())


@pytest.mark.parametrize(
    "value",
    [
        Text("a"),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        pathlib.PurePosixPath("/x"),
        Stranger(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unknown_class_is_pickled_with_a_warning(value: Any) -> None:
    codec = SelfDescribing()

    with pytest.warns(
        PickledValueWarning, match=f"of class {type(value).__name__}, which is not registered.*pickle"
    ):
        data = codec.encode([value])

    found = codec.decode(data)[0]
    assert (type(found), found) == (type(value), value)


def test_the_warning_names_the_field_and_comes_once_per_class() -> None:
    codec = SelfDescribing()

    with pytest.warns(PickledValueWarning, match=r"field \['who'\]\.y\[0\] is of class Stranger"):
        codec.encode({"who": Point(1, [Stranger(1)])})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codec.encode(Stranger(2))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Stranger(1), "the value is of class Stranger"),
        ([1, {"a": (Stranger(1),)}], r"field \[1\]\['a'\]\[0\] is of class Stranger"),
        ({Text("k"): 1}, r"field \{key\} is of class Text"),
        (Row(a=Stranger(1)), r"field \[0\] is of class Stranger"),
        (Point(1, Stranger(1)), r"field \.y is of class Stranger"),
    ],
    ids=["top", "nested", "key", "row", "record"],
)
def test_where_pickle_is_forbidden_an_unknown_class_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(
        RecordError, match=f"{path}, which is not registered and pickle is forbidden; use register_class"
    ):
        codec_for(None, pickle="forbid").encode(value)


def test_pickled_bytes_are_not_read_where_pickle_is_forbidden() -> None:
    with pytest.warns(PickledValueWarning):
        data = codec_for(None).encode(Stranger(1))

    with pytest.raises(
        StateFormatError, match="contain a pickled value, and pickle is forbidden; allow pickle"
    ):
        codec_for(None, pickle="forbid").decode(data)


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(
        RecordError, match=r"field \[0\] is of class function.* cannot be pickled; use register_class"
    ):
        SelfDescribing().encode([lambda: None])


def test_a_member_of_an_enum_nobody_can_find_is_refused() -> None:
    class Local(enum.Enum):
        A = 1

    with pytest.raises(
        RecordError, match=r"the value is of class .*Local, which is not registered and cannot be pickled"
    ):
        SelfDescribing().encode(Local.A)


@pytest.mark.parametrize("value", ["\ud800", ["\udfff"], {"\ud800": 1}], ids=["str", "list", "key"])
def test_text_that_is_not_unicode_is_refused(value: Any) -> None:
    with pytest.raises(RecordError, match=r"cannot be encoded: .*surrogates not allowed"):
        SelfDescribing().encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(RecordError, match=r"list cannot be encoded: .*recursion"):
        SelfDescribing().encode(loop)


def test_a_zone_without_a_name_is_refused() -> None:
    class Odd(datetime.tzinfo):
        def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
            return datetime.timedelta(0)

        dst = tzname = utcoffset  # type: ignore[assignment]  # never asked

    with pytest.raises(
        RecordError, match=r"zone .*Odd.* cannot be encoded; use datetime\.timezone or zoneinfo"
    ):
        SelfDescribing().encode(datetime.datetime(2026, 1, 1, tzinfo=Odd()))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xc1", "not a self-describing value: .*; check whether another codec wrote it"),
        (b"", "not a self-describing value"),
        (
            msgspec.msgpack.encode(msgspec.msgpack.Ext(99, b"\x01")),
            "unknown extension 99; .*newer version of tidegate",
        ),
        (
            msgspec.msgpack.encode(msgspec.msgpack.Ext(14, msgspec.msgpack.encode(["no.such:Thing", []]))),
            "class 'no.such:Thing' is not registered; register it under this name",
        ),
        (
            msgspec.msgpack.encode(msgspec.msgpack.Ext(14, msgspec.msgpack.encode(["decimal:Decimal", []]))),
            "class 'decimal:Decimal' is not registered; call register_class",
        ),
        (
            msgspec.msgpack.encode(msgspec.msgpack.Ext(13, msgspec.msgpack.encode(["no.such:Thing", "A"]))),
            "class 'no.such:Thing' is not registered",
        ),
    ],
    ids=["garbage", "empty", "extension", "class", "unregistered", "enum"],
)
def test_bytes_that_make_no_sense_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(StateFormatError, match=message):
        SelfDescribing().decode(data)


def test_a_record_that_gained_a_field_is_refused() -> None:
    shorter = msgspec.msgpack.Ext(14, msgspec.msgpack.encode(["untyped.point", [1]]))

    with pytest.raises(
        StateFormatError, match=r"record Point has changed; got 1 fields; expected \('x', 'y'\)"
    ):
        SelfDescribing().decode(msgspec.msgpack.encode(shorter))


GOLDEN_VALUES: dict[str, Any] = {
    "plain": {"a": [1, 1.5, None, True, b"x"]},
    "big int": [2**64, -(2**63) - 1, 2**64 - 1],
    "tuple": (1, (2, [])),
    "set": {7},
    "frozenset": frozenset({"a"}),
    "pairs": {(1, 2): {3: 4}},
    "decimal": decimal.Decimal("1.10"),
    "fraction": fractions.Fraction(1, 3),
    "uuid": uuid.UUID(int=7),
    "date": datetime.date(2026, 1, 2),
    "time": datetime.time(3, 4, 5, 6),
    "datetime": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=BERLIN),
    "datetime fixed": datetime.datetime(2026, 1, 2, 3, 4, 5, fold=1, tzinfo=INDIA),
    "duration": datetime.timedelta(days=-1, microseconds=7),
    "complex": 1 + 2j,
    "bytearray": bytearray(b"ab"),
    "row": Row.of([1, ("a",)], ["n", "t"], RowKind.UPDATE_AFTER),
    "record": Point(1, {2}),
    "named record": Point(1, {2}),
    "class": Money(5),
}
READ_ONLY = {"record"}
"""Records had no names of their fields at first."""


def test_bytes_written_by_version_1_are_still_read_and_written(same: Same) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    codec = SelfDescribing()

    assert codec.version == 1
    assert set(golden) == set(GOLDEN_VALUES)
    for name, value in GOLDEN_VALUES.items():
        assert same(codec.decode(bytes.fromhex(golden[name])), value), name
        if name not in READ_ONLY:
            assert codec.encode(value).hex() == golden[name], name
