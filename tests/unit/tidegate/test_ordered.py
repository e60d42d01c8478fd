"""Bytes whose order is the order of the keys they were made of."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import json
import math
import uuid
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.keys import canonical
from tidegate.ordered import KeyOrder, ordered_bytes, ordered_value
from tidegate.types import TypeInformation, Types

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "ordered.json"
GOLDEN_KEYS: Final[dict[str, Any]] = {
    "zero": 0,
    "small": 7,
    "negative": -7,
    "long": 2**63 - 1,
    "lowest long": -(2**63),
    "huge": 2**200,
    "huge negative": -(2**200),
    "true": True,
    "float": 1.5,
    "negative float": -1.5,
    "infinity": math.inf,
    "text": "añ\0\1",
    "bytes": b"\0\1\2",
    "decimal": Decimal("12.345"),
    "negative decimal": Decimal("-0.0012"),
    "zero decimal": Decimal(0),
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(23, 59, 59, 999_999),
    "local": datetime.datetime(2024, 2, 29, 12, 30, 1, 5),  # a moment without a zone is meant
    "instant": datetime.datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    "duration": datetime.timedelta(days=-1, microseconds=5),
    "uuid": uuid.UUID(int=5),
    "tuple": (1, None, "a", (b"", 2.0), "z"),
    "empty tuple": (),
}

INTS = st.one_of(st.integers(), st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(allow_nan=False)
TEXTS = st.one_of(st.text(max_size=5), st.text("\0\1\2a", max_size=4))
BINARIES = st.one_of(st.binary(max_size=5), st.lists(st.sampled_from((0, 1, 2, 255)), max_size=4).map(bytes))
DECIMALS = st.one_of(
    st.decimals(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.integers(-1000, 1000).map(Decimal),
)
LOCALS = st.datetimes()
INSTANTS = st.datetimes(
    datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1), timezones=st.just(UTC)
)  # as hypothesis wants it
SCALARS: dict[str, tuple[TypeInformation, st.SearchStrategy[Any]]] = {
    "bool": (Types.BOOLEAN(), st.booleans()),
    "int": (Types.BIG_INT(), INTS),
    "float": (Types.DOUBLE(), FLOATS),
    "text": (Types.STRING(), TEXTS),
    "bytes": (Types.of(bytes), BINARIES),
    "decimal": (Types.BIG_DEC(), DECIMALS),
    "date": (Types.SQL_DATE(), st.dates()),
    "time": (Types.SQL_TIME(), st.times()),
    "timestamp": (Types.SQL_TIMESTAMP(), LOCALS),
    "instant": (Types.INSTANT(), INSTANTS),
    "duration": (Types.of(datetime.timedelta), st.timedeltas()),
    "uuid": (Types.of(uuid.UUID), st.uuids()),
}


@st.composite
def typed_pairs(draw: st.DrawFn) -> tuple[TypeInformation, Any, Any]:
    """Two keys of one type: a scalar, or a tuple of scalars, tuples and what may be None."""
    info, keys = draw(_types(depth=2))
    return info, draw(keys), draw(keys)


@st.composite
def _types(draw: st.DrawFn, depth: int) -> tuple[TypeInformation, st.SearchStrategy[Any]]:
    if depth == 0 or draw(st.booleans()):
        return SCALARS[draw(st.sampled_from(sorted(SCALARS)))]
    items = [draw(_types(depth=depth - 1)) for _ in range(draw(st.integers(0, 3)))]
    parts = [
        (Types.OPTIONAL(info), st.none() | keys) if draw(st.booleans()) else (info, keys)
        for info, keys in items
    ]
    return Types.TUPLE([info for info, _ in parts]), st.tuples(*[keys for _, keys in parts])


def compared(left: Any, right: Any) -> int:
    """Python's order, with None in front."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, tuple):
        parts = (compared(*pair) for pair in zip(left, right, strict=False))
        return next((part for part in parts if part), len(left) - len(right))
    return int(left > right) - int(left < right)


@given(typed_pairs())
def test_bytes_are_in_the_order_of_the_keys(pair: tuple[TypeInformation, Any, Any]) -> None:
    info, left, right = pair
    encode = KeyOrder(info)
    first, second = encode(left), encode(right)
    order = compared(left, right)
    assert (first > second) - (first < second) == (order > 0) - (order < 0)


@given(typed_pairs())
def test_a_key_comes_back_as_its_canonical_form(pair: tuple[TypeInformation, Any, Any]) -> None:
    info, key, _ = pair
    plain = canonical(key, info)
    back = ordered_value(KeyOrder(info)(key))
    assert back == plain
    assert repr(back) == repr(plain)


@given(st.lists(st.tuples(INTS, TEXTS), max_size=6), INTS)
def test_a_shorter_tuple_is_a_bound_of_those_that_start_with_it(
    keys: list[tuple[int, str]], first: int
) -> None:
    info = Types.TUPLE([Types.BIG_INT(), Types.STRING()])
    order = KeyOrder(info)
    inside = [key for key in keys if order.bound((first,)) <= order(key) < order.bound((first + 1,))]
    assert inside == [key for key in keys if key[0] == first]


def test_the_order_is_pythons_for_a_list_of_all_sizes_of_ints() -> None:
    keys = sorted(sign * 2**bits + off for bits in range(0, 300, 4) for sign in (1, -1) for off in (-1, 0, 1))
    assert sorted(keys, key=ordered_bytes) == keys


@pytest.mark.parametrize(
    ("one", "other", "info"),
    [
        pytest.param(0.0, -0.0, Types.DOUBLE(), id="zeros"),
        pytest.param(1, 1.0, Types.DOUBLE(), id="an int for a float"),
        pytest.param(Decimal("1.0"), Decimal("1.000"), Types.BIG_DEC(), id="decimals"),
        pytest.param(Decimal(0), Decimal("-0.00"), Types.BIG_DEC(), id="zero decimals"),
        pytest.param(
            datetime.datetime(2024, 1, 1, 12, tzinfo=UTC),
            datetime.datetime(2024, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            Types.INSTANT(),
            id="moments",
        ),
    ],
)
def test_equal_keys_have_equal_bytes(one: Any, other: Any, info: TypeInformation) -> None:
    assert KeyOrder(info)(one) == KeyOrder(info)(other)


@pytest.mark.parametrize(
    ("key", "info"),
    [
        pytest.param(math.nan, Types.DOUBLE(), id="float"),
        pytest.param(Decimal("NaN"), Types.BIG_DEC(), id="decimal"),
        pytest.param((math.nan,), Types.TUPLE([Types.DOUBLE()]), id="in a tuple"),
    ],
)
def test_nan_is_refused(key: Any, info: TypeInformation) -> None:
    with pytest.raises(RecordError, match=r"(?i)nan"):
        KeyOrder(info)(key)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(RecordError, match="not valid Unicode; use bytes"):
        KeyOrder(Types.STRING())("\ud800")


@pytest.mark.parametrize(
    ("info", "match"),
    [
        pytest.param(None, "got no key type; expected bool, int", id="none at all"),
        pytest.param(Types.LIST(Types.LONG()), "type list<long> have no order", id="list"),
        pytest.param(
            Types.TUPLE([Types.MAP(Types.LONG(), Types.LONG())]), "type map<long, long>", id="in a tuple"
        ),
        pytest.param(Types.OPTIONAL(Types.LONG()), "None is allowed only inside a tuple", id="optional"),
    ],
)
def test_a_type_without_order_is_refused(info: TypeInformation | None, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        KeyOrder(info)


def test_a_value_that_does_not_fit_its_declared_type_is_refused() -> None:
    with pytest.raises(RecordError, match="key does not have its declared type; got str 'a'; expected long"):
        KeyOrder(Types.LONG())("a")
    with pytest.raises(RecordError, match=r"object .* cannot be ordered"):
        ordered_bytes(object())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\x22\x01",
        b"\x21\x01\x01",
        b"\x40\x00",
        b"\x30\0\0\0\x20\x01",
        b"\x50\xff",
        b"\x60\x04\x21",
    ],
    ids=lambda data: data.hex() or "nothing",
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(StateFormatError, match="invalid bytes of an ordered key"):
        ordered_value(data)


@given(st.binary(max_size=12))
def test_no_bytes_end_in_another_error(data: bytes) -> None:
    with contextlib.suppress(StateFormatError):
        ordered_value(data)


def test_golden_keys_keep_their_bytes() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert set(golden) == set(GOLDEN_KEYS)
    for name, key in GOLDEN_KEYS.items():
        assert ordered_bytes(key).hex() == golden[name], name
        assert ordered_value(bytes.fromhex(golden[name])) == key, name


def test_the_digits_of_a_decimal_are_not_cut_by_the_context() -> None:
    key = Decimal("1." + "123456789" * 10)
    with decimal.localcontext() as context:
        context.prec = 3
        assert ordered_value(ordered_bytes(key)) == key


def test_none_comes_first_in_each_place() -> None:
    keys = [(None, 5), (1, None), (1, 0), (None, None)]
    expected = [(None, None), (None, 5), (1, None), (1, 0)]
    assert sorted(keys, key=ordered_bytes) == expected == sorted(keys, key=functools.cmp_to_key(compared))
