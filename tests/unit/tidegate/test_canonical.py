"""One form for all keys that are equal."""

from __future__ import annotations

import array
import dataclasses
import datetime
import decimal
import enum
import fractions
import math
import uuid
import zoneinfo
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.canonical import canonical, canonical_batch
from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.keys import key_bytes, key_from_bytes
from tidegate.row import Row
from tidegate.types import TypeInformation, Types

NOON = datetime.datetime(2026, 1, 1, 12)
INDIA = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    ADA = "ada"


class Mixed(str, enum.Enum):  # noqa: UP042  # the old form of StrEnum is what is tested
    ADA = "ada"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Loud(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    __hash__ = str.__hash__


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


class Struct(msgspec.Struct, frozen=True):
    n: Any


@dataclass
class Open:
    n: int


@dataclass(frozen=True)
class Partial:
    n: int
    note: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class OwnEquality:
    n: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # not needed


class OpenStruct(msgspec.Struct):
    n: int


class Plain:
    pass


class Hashed:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed)

    def __hash__(self) -> int:
        return 1


class Flexible(enum.Enum):
    A = 1

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = enum.Enum.__hash__


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (1, 1),
        (True, 1),
        (False, 0),
        (1.0, 1),
        (-0.0, 0),
        (1e300, int(1e300)),
        (1.5, 1.5),
        (math.inf, math.inf),
        (2**80, 2**80),
        ("a", "a"),
        (b"a", b"a"),
        (None, None),
        (Text("b"), "b"),
        (Level.LOW, 1),
        (Name.ADA, "ada"),
        (Mixed.ADA, "ada"),
        (Colour.RED, Colour.RED),
        ((True, (1.0, -0.0)), (1, (1, 0))),
        (Pair(1.0, True), (1, 1)),
        (Point(1.0, ("a", True)), Point(1, ("a", 1))),
        (Struct(2.0), Struct(2)),
        (uuid.UUID(int=1), uuid.UUID(int=1)),
        (NOON.date(), NOON.date()),
        (NOON.replace(fold=1), NOON),
        (NOON.replace(tzinfo=INDIA), NOON.replace(hour=6, minute=30, tzinfo=datetime.UTC)),
        (NOON.time(), NOON.time()),
        (datetime.timedelta(1), datetime.timedelta(1)),
    ],
    ids=repr,
)
def test_undeclared_keys_follow_equality(key: Any, expected: Any) -> None:
    found = canonical(key)

    assert (type(found), found) == (type(expected), expected)
    assert repr(found) == repr(expected)
    assert key == found
    assert canonical(found) == found
    assert canonical_batch([key]) == [found]


@pytest.mark.spec("002/AX-57")
@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ([1], "is a collection; use a tuple, sorted if the order has no meaning"),
        (array.array("i", [1]), "is a collection; use a tuple"),
        (Plain(), "is compared by identity; use a frozen dataclass, a tuple or one of its fields"),
        (object(), "is compared by identity"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_array_or_an_object_without_its_own_hash_is_no_key(key: Any, remedy: str) -> None:
    with pytest.raises(RecordError, match=f"^{type(key).__name__} .* cannot be a key: it {remedy}"):
        canonical(key)


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        (bytearray(b"a"), r"is mutable; use bytes\(key\)"),
        (memoryview(b"a"), r"is mutable; use bytes\(key\)"),
        (math.nan, "is not equal to itself; replace it, for instance by None"),
        (decimal.Decimal(1), "equals numbers of other types; declare the key type or use a str"),
        (fractions.Fraction(1), "equals numbers of other types"),
        (1 + 0j, "has no canonical encoding; use a str, an int, a tuple or a frozen dataclass"),
        (Hashed(), "has no canonical encoding"),
        ({"a": 1}, "is a collection"),
        ({1}, "is a collection"),
        (frozenset({1}), "is a collection; use a tuple, sorted"),
        (Open(1), "is a mutable record or has its own comparison; declare its class frozen"),
        (OpenStruct(1), "is a mutable record"),
        (Partial(1), "is a mutable record or has its own comparison"),
        (OwnEquality(1), "is a mutable record or has its own comparison"),
        (Loud("A"), "has its own comparison; convert it to a plain str"),
        (Flexible.A, "has its own comparison; use its name or value"),
        (
            NOON.replace(tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
            "has a time zone with a changing offset; convert it with",
        ),
        (
            NOON.time().replace(tzinfo=datetime.UTC),
            "has a time zone; use a datetime in UTC or a time without a time zone",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize(
    "wrap",
    [lambda key: key, lambda key: ("a", key), Point, Struct],
    ids=["bare", "tuple", "dataclass", "struct"],
)
def test_what_has_no_canonical_form_is_refused_with_a_remedy(wrap: Any, key: Any, remedy: str) -> None:
    with pytest.raises(RecordError, match=f"^{type(key).__name__} .* cannot be a key: it {remedy}"):
        canonical(wrap(key))


def test_a_class_only_its_function_can_see_is_no_key() -> None:
    @dataclass(frozen=True)
    class Local:
        n: int

    colour = enum.Enum("colour", ["A"])

    for key in (Local(1), colour.A):
        with pytest.raises(
            RecordError, match="cannot be found by its name; define it at the top of a module"
        ):
            canonical(key)


@pytest.mark.parametrize(
    ("key", "info", "expected"),
    [
        (True, Types.LONG(), 1),
        (1.0, Types.INT(), 1),
        (Level.LOW, Types.LONG(), 1),
        (1, Types.BOOLEAN(), True),
        (0.0, Types.BOOLEAN(), False),
        (1, Types.DOUBLE(), 1.0),
        (-0.0, Types.DOUBLE(), 0.0),
        (True, Types.FLOAT(), 1.0),
        (2**80, Types.BIG_INT(), 2**80),
        (Text("a"), Types.STRING(), "a"),
        (Name.ADA, Types.STRING(), "ada"),
        (1, Types.BIG_DEC(), decimal.Decimal(1)),
        (decimal.Decimal("100.0"), Types.BIG_DEC(), decimal.Decimal("1E+2")),
        (decimal.Decimal("-0.00"), Types.BIG_DEC(), decimal.Decimal(0)),
        (decimal.Decimal("1." + "1" * 40 + "0"), Types.BIG_DEC(), decimal.Decimal("1." + "1" * 40)),
        (decimal.Decimal("-Infinity"), Types.BIG_DEC(), decimal.Decimal("-Infinity")),
        (NOON.replace(tzinfo=INDIA), Types.INSTANT(), NOON.replace(hour=6, minute=30, tzinfo=datetime.UTC)),
        (NOON.replace(fold=1), Types.SQL_TIMESTAMP(), NOON),
        (NOON.time().replace(fold=1), Types.SQL_TIME(), NOON.time()),
        (NOON.date(), Types.SQL_DATE(), NOON.date()),
        (None, Types.OPTIONAL(Types.LONG()), None),
        (True, Types.OPTIONAL(Types.LONG()), 1),
        ((True, 1), Types.of(tuple[int, float]), (1, 1.0)),
        ((True, 2.0), Types.of(tuple[int, ...]), (1, 2)),
        (Pair(1, 2.0), Types.of(tuple[int, int]), (1, 2)),
        (Pair(True, 2.0), Types.of(Pair), Pair(1, 2)),
        (Point(True, "a"), Types.of(Point), Point(1, "a")),
        (Colour.RED, Types.of(Colour), Colour.RED),
        (b"a", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a"),
        (uuid.UUID(int=1), Types.of(uuid.UUID), uuid.UUID(int=1)),
    ],
    ids=str,
)
def test_declared_keys_are_coerced_where_nothing_is_lost(
    key: Any, info: TypeInformation, expected: Any
) -> None:
    found = canonical(key, info)

    assert (type(found), repr(found)) == (type(expected), repr(expected))
    assert key == found
    assert canonical_batch([key], info) == [found]


@pytest.mark.parametrize(
    ("key", "info", "expected"),
    [
        (Row(1.0, None), Types.ROW([Types.LONG(), Types.STRING()]), Row(f0=1, f1=None)),
        (Row(a=1), Types.ROW_NAMED(["a"], [Types.DOUBLE()]), Row(a=1.0)),
        (Row((1.0, True)), None, Row((1, 1))),
        (Row.of_kind(RowKind.DELETE, a=1), None, Row.of_kind(RowKind.DELETE, a=1)),
        ([1, 2.0], Types.of(tuple[int, int]), (1, 2)),
        (Row(1, 2), Types.TUPLE([Types.LONG(), Types.LONG()]), (1, 2)),
    ],
    ids=repr,
)
def test_rows_are_keys_and_whatever_is_declared_a_tuple_becomes_one(
    key: Any, info: TypeInformation | None, expected: Any
) -> None:
    found = canonical(key, info)

    assert (found, repr(found)) == (expected, repr(expected))
    assert key_from_bytes(key_bytes(found)) == found
    assert canonical(found, info) == found


@pytest.mark.parametrize(
    ("key", "info"),
    [
        (1.5, Types.LONG()),
        (math.nan, Types.LONG()),
        (math.inf, Types.LONG()),
        ("1", Types.LONG()),
        (None, Types.LONG()),
        (2**31, Types.INT()),
        (2**53 + 1, Types.DOUBLE()),
        (10**400, Types.DOUBLE()),
        (math.nan, Types.DOUBLE()),
        ("1", Types.DOUBLE()),
        (2, Types.BOOLEAN()),
        (1, Types.STRING()),
        (b"a", Types.STRING()),
        ("a", Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (1.5, Types.BIG_DEC()),
        (decimal.Decimal("NaN"), Types.BIG_DEC()),
        (NOON, Types.SQL_DATE()),
        (NOON, Types.INSTANT()),
        (NOON.replace(tzinfo=datetime.UTC), Types.SQL_TIMESTAMP()),
        ((1,), Types.of(tuple[int, int])),
        ({1, 2}, Types.of(tuple[int, int])),
        (Row(1), Types.ROW([Types.STRING()])),
        (Row(1, 2), Types.ROW([Types.LONG()])),
        (Row(a=1), Types.ROW_NAMED(["b"], [Types.LONG()])),
        ((1, "a"), Types.of(tuple[int, int])),
        (Open(1), Types.of(Open)),
        (OpenStruct(1), Types.of(OpenStruct)),
        ((1, 2), Types.of(Pair)),
        (1, Types.of(Colour)),
        ((1,), Types.LIST(Types.LONG())),
        (1, Types.PICKLED_BYTE_ARRAY()),
    ],
    ids=str,
)
def test_declared_keys_that_would_change_are_refused(key: Any, info: TypeInformation) -> None:
    with pytest.raises(
        RecordError, match=r"key does not have its declared type; got .*; expected .*; convert it in the"
    ):
        canonical(key, info)
    with pytest.raises(RecordError, match="key does not have its declared type"):
        canonical_batch([key], info)


def test_a_batch_of_canonical_keys_is_handed_on_itself() -> None:
    for keys, info in (
        (["a", 1], None),
        ([1, 2], Types.LONG()),
        (["a"], Types.STRING()),
        ([True], Types.BOOLEAN()),
    ):
        assert canonical_batch(keys, info) is keys


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.integers()
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, 1e300, math.inf, int(1e300)])
    | st.floats(allow_nan=False)
    | st.sampled_from(["ada", "a", "", b"a", Text("a"), Level.LOW, Name.ADA, Mixed.ADA, Colour.RED])
    | st.text(max_size=2)
    | st.sampled_from(
        [NOON, NOON.replace(tzinfo=INDIA), NOON.replace(hour=6, minute=30, tzinfo=datetime.UTC)]
    )
    | st.sampled_from([NOON.date(), NOON.time(), uuid.UUID(int=1), datetime.timedelta(0)])
)
KEYS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.builds(Pair, inner, inner)
        | st.builds(Point, inner, inner)
        | st.builds(Struct, inner)
    ),
    max_leaves=4,
)


@given(left=KEYS, right=KEYS)
def test_keys_are_equal_exactly_when_their_bytes_are(left: Any, right: Any) -> None:
    assert (left == right) == (key_bytes(canonical(left)) == key_bytes(canonical(right)))


@given(key=KEYS)
def test_a_key_equals_its_canonical_form_and_hashes_like_it(key: Any) -> None:
    found = canonical(key)

    assert found == key
    assert hash(found) == hash(key)


@given(
    left=st.decimals(allow_nan=False) | st.integers(-3, 3),
    right=st.decimals(allow_nan=False) | st.integers(-3, 3),
)
def test_declared_decimals_are_equal_exactly_when_their_bytes_are(left: Any, right: Any) -> None:
    info = Types.BIG_DEC()

    assert (left == right) == (key_bytes(canonical(left, info)) == key_bytes(canonical(right, info)))
