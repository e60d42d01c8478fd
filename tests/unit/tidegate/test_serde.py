"""The round-trip law of the codecs."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import gc
import json
import math
import pickle
import uuid
import warnings
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.row import Row
from tidegate.serde import Codec, codec_for, exchange_codec
from tidegate.types import Kind, TypeInformation, Types, infer

GOLDEN = Path(__file__).parents[2] / "golden" / "codecs" / "msgspec-1.json"
Same = Callable[[Any, Any], bool]


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Mixed(enum.Enum):
    NUMBER = 1
    WORD = "word"


@dataclass
class Person:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Money:
    amount: decimal.Decimal
    currency: str | None
    _hidden: int = 0
    derived: float = field(init=False, default=0.5)


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Event(msgspec.Struct, omit_defaults=True, rename="camel"):
    event_id: int
    by: Person
    when: datetime.datetime | None = None
    points: list[Point] = []
    levels: dict[Level, int] = {}


class Open(msgspec.Struct):
    id: int
    payload: Any


class Positive(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(gt=0)]
    kind: Literal["a", "b"] = "a"


@dataclass
class Counting:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


class Huge(enum.Enum):
    GOOGOL = 10**100


@dataclass
class Seeded:
    n: int
    seed: InitVar[int] = 0


def texts() -> st.SearchStrategy[str]:
    return st.text(max_size=5)


def unfolded(times: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Without the second of two equal readings of a clock, which only the self-describing form keeps."""
    return times.map(lambda time: time.replace(fold=0))


TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Types.BOOLEAN(), st.booleans()),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
    (Types.BIG_INT(), st.integers()),
    (Types.DOUBLE(), st.floats()),
    (Types.FLOAT(), st.floats()),
    (Types.BIG_DEC(), st.decimals(allow_nan=False)),
    (Types.STRING(), st.text()),
    (infer(bytes), st.binary()),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), unfolded(st.times())),
    (Types.SQL_TIMESTAMP(), unfolded(st.datetimes())),
    (Types.INSTANT(), unfolded(st.datetimes(timezones=st.just(datetime.UTC)))),
    (infer(datetime.timedelta), st.timedeltas()),
    (infer(uuid.UUID), st.uuids()),
    (infer(Level), st.sampled_from(Level)),
    (infer(Mixed), st.sampled_from(Mixed)),
    (infer(Person), st.builds(Person, st.integers(0, 9), texts())),
    (infer(Money), st.builds(Money, st.decimals(allow_nan=False), st.none() | texts(), st.integers(0, 9))),
    (infer(Point), st.builds(Point, st.floats(), st.floats())),
    (
        infer(Event),
        st.builds(
            Event,
            st.integers(0, 9),
            st.builds(Person, st.integers(0, 9), texts()),
            st.none() | unfolded(st.datetimes()),
            st.lists(st.builds(Point, st.floats(), st.floats()), max_size=3),
            st.dictionaries(st.sampled_from(Level), st.integers(0, 9)),
        ),
    ),
    (infer(Open), st.builds(Open, st.integers(0, 9), st.tuples(st.integers(), st.sets(texts())))),
    (infer(Positive), st.builds(Positive, st.integers(-9, 9), st.sampled_from(["a", "b", "c"]))),
    (infer(Huge), st.sampled_from(Huge)),
    (infer(Seeded), st.builds(Seeded, st.integers(0, 9))),
    (infer(Counting), st.builds(Counting, st.integers(-9, 9))),
    (infer(dict[tuple[int, str], set[int]]), st.dictionaries(st.tuples(st.integers(0, 9), texts()), st.sets(st.integers(0, 9)))),
    (infer(frozenset[Point]), st.frozensets(st.builds(Point, st.floats(allow_nan=False)), max_size=3)),
    (infer(tuple[int, ...]), st.lists(st.integers(0, 9)).map(tuple)),
    (infer(list[tuple[()] | None]), st.lists(st.just(()) | st.none())),
    (Types.ROW([Types.LONG(), Types.STRING()]), st.builds(Row, st.integers(0, 9), texts())),
    (
        Types.ROW_NAMED(["id", "who"], [Types.LONG(), Types.of(Person)]),
        st.builds(lambda number: Row(id=number, who=Person(number, "a")), st.integers(0, 9)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("info", "values"), TYPED, ids=[str(info) for info, _ in TYPED])
@given(data=st.data())
def test_typed_values_come_back_the_same(
    info: TypeInformation, values: st.SearchStrategy[Any], same: Same, data: st.DataObject
) -> None:
    found = data.draw(st.lists(values, max_size=4))
    for codec in (codec_for(info, pickle="forbid"), exchange_codec(info)):
        assert same(codec.decode_batch(codec.encode_batch(found)), found)
        assert all(same(codec.decode(codec.encode(value)), value) for value in found)
        assert codec.encode_each(found) == list(map(codec.encode, found))


@given(
    values=st.lists(
        st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=2) | st.tuples()
    )
)
def test_any_list_comes_back_the_same_or_is_refused(same: Same, values: list[Any]) -> None:
    for info in (Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.OPTIONAL(Types.LONG())):
        codec = codec_for(info)
        try:
            data = codec.encode_batch(values)
        except RecordError:
            with pytest.raises(RecordError):
                [codec.encode(value) for value in values]
        else:
            assert same(codec.decode_batch(data), values)


@pytest.mark.parametrize(
    ("info", "value", "message"),
    [
        (infer(tuple[int, str]), (True, "a"), r"field \[0\]: got bool True; expected long"),
        (infer(Person), Person(1, None), "field name: got NoneType None; expected string"),  # type: ignore[arg-type]
        (infer(Person), {"id": 1}, "got dict .*; expected record Person"),
        (Types.LONG(), 2**64, "int of more than 64 bits: 18446744073709551616; declare Types.BIG_INT"),
        (Types.STRING(), "\ud800", "record of type string cannot be encoded: .*surrogates not allowed; got"),
        (Types.BIG_INT(), True, "got bool True; expected big_int"),
        (Types.ROW([Types.LONG()]), Row("a"), "field f0: got str 'a'; expected long"),
    ],
    ids=str,
)
def test_what_would_come_back_changed_is_refused_with_its_path(
    info: TypeInformation, value: Any, message: str
) -> None:
    codec = codec_for(info)

    with pytest.raises(RecordError, match=message):
        codec.encode(value)
    with pytest.raises(RecordError, match=message):
        codec.encode_batch([value])
    with pytest.raises(RecordError, match=message):
        codec.encode_each([value])


def test_nan_inside_a_typed_record_stays_nan() -> None:
    codec = codec_for(infer(Point))

    assert math.isnan(codec.decode(codec.encode(Point(math.nan))).x)


def test_a_record_without_all_its_fields_is_refused() -> None:
    empty = Money.__new__(Money)

    with pytest.raises(RecordError, match=r"record of type record Money.* cannot be encoded: .*amount"):
        codec_for(infer(Money)).encode(empty)


def test_post_init_does_not_run_again_on_the_way_back() -> None:
    counting = Counting(1)
    codec = codec_for(infer(Counting))

    assert codec.decode(codec.encode(counting)).n == counting.n == 2


@pytest.mark.parametrize(
    ("info", "kept", "exchanged"),
    [
        (None, "self-describing", "pickle"),
        (infer(Person), "msgspec", "msgspec"),
        (infer(Open), "self-describing", "pickle"),
        (infer(Positive), "self-describing", "pickle"),
        (infer(Mixed), "self-describing", "pickle"),
        (Types.PICKLED_BYTE_ARRAY(), "pickle", "pickle"),
    ],
    ids=str,
)
def test_the_form_follows_the_type(info: TypeInformation | None, kept: str, exchanged: str) -> None:
    assert codec_for(info).id == kept
    assert exchange_codec(info).id == exchanged
    assert codec_for(info).version == exchange_codec(info).version == 1


def test_a_codec_tells_types_apart_by_its_fingerprint() -> None:
    assert codec_for(infer(Person)).fingerprint == "record Person(id: long, name: string)"
    assert codec_for(infer(Open)).fingerprint == "record Open(id: long, payload: any)"
    assert codec_for(None).fingerprint == "any"
    assert codec_for(Types.PICKLED_BYTE_ARRAY()).fingerprint == "pickled"


def test_pickle_asked_for_by_name_needs_no_warning() -> None:
    info = Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
    codec = codec_for(info)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert codec.decode(codec.encode((1, Path("a")))) == (1, Path("a"))


def test_pickle_asked_for_by_name_is_refused_where_it_is_forbidden() -> None:
    with pytest.raises(ConfigError, match="type list<pickled> needs pickle, which is forbidden"):
        codec_for(Types.LIST(Types.PICKLED_BYTE_ARRAY()), pickle="forbid")


def test_what_does_not_pickle_is_refused() -> None:
    codec = exchange_codec(None)

    with pytest.raises(RecordError, match=r"function cannot be pickled: .*; declare its type"):
        codec.encode(lambda: None)


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        (
            codec_for(infer(Person)),
            r"bytes do not hold a value of type record Person.*check whether the type was changed",
        ),
        (exchange_codec(None), "pickled value cannot be read"),
        (codec_for(None), "not a self-describing value"),
    ],
    ids=["typed", "pickle", "self-describing"],
)
def test_bytes_of_something_else_are_refused(codec: Codec, message: str) -> None:
    for decode in (codec.decode, codec.decode_batch):
        with pytest.raises(StateFormatError, match=message):
            decode(b"\xc1")


@pytest.mark.spec("004/AX-032")
def test_a_tuple_delegates_to_the_codec_of_each_field_and_comes_back_equal_in_value_and_type(
    same: Same,
) -> None:
    info = Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.of(Person)])
    codec = codec_for(info)
    value = (7, 2.5, Person(42, "ada"))

    data = codec.encode(value)

    fields = [codec_for(item).encode(part) for item, part in zip(info.items, value, strict=True)]
    assert data == b"\x93" + b"".join(fields)
    assert info.items[2].kind is Kind.RECORD
    assert codec_for(info.items[2]).id == "msgspec"
    assert same(codec.decode(data), value)
    with pytest.raises(RecordError, match=r"field \[2\]\.name: got int 1; expected string"):
        codec.encode((7, 2.5, Person(42, 1)))  # type: ignore[arg-type]  # wrong on purpose


GOLDEN_VALUES: dict[str, tuple[TypeInformation | None, Any]] = {
    "person": (infer(Person), Person(1, "ada")),
    "point": (infer(Point), Point(1.5, -0.0)),
    "event": (infer(Event), Event(3, Person(1, "ada"), datetime.datetime(2026, 1, 2, 3, 4, 5), [Point(1.0)], {Level.LOW: 1})),
    "money": (infer(Money), Money(decimal.Decimal("1.10"), None)),
    "tuple": (infer(tuple[int, str]), (1, "a")),
    "map": (infer(dict[str, list[int]]), {"a": [1, 2]}),
    "instant": (Types.INSTANT(), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
    "uuid": (infer(uuid.UUID), uuid.UUID(int=7)),
}  # fmt: skip


def test_bytes_written_by_version_1_are_still_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))

    assert set(golden) == set(GOLDEN_VALUES)
    for name, (info, value) in GOLDEN_VALUES.items():
        codec = codec_for(info)
        assert (codec.id, codec.version) == ("msgspec", 1), name
        assert codec.decode(bytes.fromhex(golden[name])) == value, name
        assert codec.encode(value).hex() == golden[name], name


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("data", [b"\x90", b"\xc1"], ids=["batch", "garbage"])
def test_the_garbage_collector_is_left_as_it_was(collecting: bool, data: bytes) -> None:
    codec = codec_for(infer(Person))
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        with contextlib.suppress(StateFormatError):
            codec.decode_batch(data)
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()


def test_a_codec_for_pickles_reads_what_pickle_wrote() -> None:
    codec = codec_for(Types.PICKLED_BYTE_ARRAY())

    assert codec.decode(pickle.dumps({1})) == {1}
    assert codec.decode_batch(codec.encode_batch([1, {2}])) == [1, {2}]
