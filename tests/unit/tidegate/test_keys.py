"""Bytes, groups and owners of keys."""

from __future__ import annotations

import datetime
import decimal
import enum
import gc
import json
import tracemalloc
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, strategies as st
from xxhash import xxh3_64_intdigest

from tidegate.classes import register_class
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.keys import (
    KeyGroupRange,
    bytes_of_keys,
    canonical,
    check_max_parallelism,
    default_max_parallelism,
    key_bytes,
    key_from_bytes,
    key_group,
    key_groups,
    owner,
    ranges,
)
from tidegate.row import Row
from tidegate.types import Types

GOLDEN = Path(__file__).parents[2] / "golden" / "keys.json"


class Colour(enum.Enum):
    RED = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: Any


class Pair(NamedTuple):
    left: int
    right: str


class Struct(msgspec.Struct, frozen=True):
    n: int


register_class(Point, name="keys.point")
register_class(Pair, name="keys.pair")
register_class(Struct, name="keys.struct")

NOON = datetime.datetime(2026, 1, 1, 12)
GOLDEN_KEYS: dict[str, Any] = {
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "int64 min": -(2**63),
    "uint64 max": 2**64 - 1,
    "big": 2**64,
    "big negative": -(2**63) - 1,
    "true": True,
    "integral float": 1.0,
    "fraction": 0.5,
    "infinity": float("inf"),
    "none": None,
    "empty str": "",
    "str": "user-7",
    "unicode": "größe",
    "bytes": b"user-7",
    "tuple": ("a", 1),
    "empty tuple": (),
    "nested tuple": ("a", (True, 2**70), None),
    "dataclass": Point(1, ("a",)),
    "struct": Struct(1),
    "date": NOON.date(),
    "time": NOON.time(),
    "datetime": NOON,
    "instant": NOON.replace(tzinfo=datetime.UTC),
    "duration": datetime.timedelta(days=1, microseconds=1),
    "uuid": uuid.UUID(int=7),
    "row": Row(a=1, b=("x", None)),
}
GOLDEN_DECLARED: dict[str, Any] = {
    "declared double": canonical(1, Types.DOUBLE()),
    "declared boolean": canonical(1, Types.BOOLEAN()),
    "declared decimal": canonical(decimal.Decimal("1.50"), Types.BIG_DEC()),
    "declared pair": canonical(Pair(1, "a"), Types.of(Pair)),
}


def test_golden_keys_keep_their_bytes_and_groups_on_both_paths() -> None:
    """Add vectors, never rewrite one: a changed byte moves every stored key to another group."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    keys = {name: canonical(key) for name, key in GOLDEN_KEYS.items()} | GOLDEN_DECLARED

    assert set(golden) == set(keys)
    for name, key in keys.items():
        assert key_bytes(key).hex() == golden[name]["bytes"], name
        assert key_group(bytes.fromhex(golden[name]["bytes"]), 128) == golden[name]["group"], name
        assert key_groups([key], 128) == [golden[name]["group"]], name
        found = key_from_bytes(bytes.fromhex(golden[name]["bytes"]))
        assert (type(found), found) == (type(key), key), name
    assert key_groups(list(keys.values()), 128) == [golden[name]["group"] for name in keys]


@pytest.mark.parametrize("key", ["user-7", 7, -1, "", 2**63], ids=repr)
def test_a_str_or_int_is_plain_msgpack_under_xxh3(key: Any) -> None:
    data = msgspec.msgpack.encode(key)

    assert key_bytes(key) == data
    assert key_group(data, 1_000) == xxh3_64_intdigest(data) % 1_000


@pytest.mark.parametrize(
    "key",
    [
        Colour.RED,
        Access.READ,
        Access.READ | Access.WRITE,
        (Colour.RED, Point(1, NOON)),
        Point(2**70, Struct(2)),
    ],
    ids=repr,
)
def test_a_key_is_read_back_from_its_bytes(key: Any) -> None:
    found = key_from_bytes(key_bytes(key))

    assert (type(found), found) == (type(key), key)


@given(
    keys=st.lists(
        st.text(max_size=3)
        | st.integers()
        | st.floats(allow_nan=False)
        | st.tuples(st.integers(), st.binary())
    ),
    max_parallelism=st.integers(1, 32_768),
)
def test_a_batch_has_the_groups_of_its_keys(keys: list[Any], max_parallelism: int) -> None:
    forms = [canonical(key) for key in keys]

    assert key_groups(forms, max_parallelism) == [key_group(key_bytes(key), max_parallelism) for key in forms]
    assert all(key_from_bytes(key_bytes(key)) == key for key in forms)
    assert bytes_of_keys(forms) == list(map(key_bytes, forms))


def test_text_that_is_not_unicode_is_no_key() -> None:
    for keys in (["\ud800"], ["a", ("\ud800",)], [(2**70, "\ud800")], [Point(1, "\ud800")]):
        with pytest.raises(RecordError, match=r"is not valid Unicode; use bytes"):
            key_groups(keys, 128)


def test_a_key_that_is_not_canonical_has_no_bytes() -> None:
    with pytest.raises(RecordError, match=r"list is not a canonical key; pass it through canonical\(\)"):
        key_bytes([1])
    with pytest.raises(RecordError, match="list is not a canonical key"):
        key_bytes((1, [2]))


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        b"",
        b"\xd4\x63\x01",
        msgspec.msgpack.encode(msgspec.msgpack.Ext(2, b"\xa1x")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(8, msgspec.msgpack.encode(["decimal:Decimal", "A"]))),
    ],
    ids=["garbage", "empty", "extension", "decimal", "enum"],
)
def test_bytes_that_are_no_key_are_refused(data: bytes) -> None:
    with pytest.raises(
        StateFormatError, match=r"invalid bytes of a key|unknown key extension 99; .* newer version"
    ):
        key_from_bytes(data)


def test_grouping_keeps_nothing_of_the_keys() -> None:
    key_groups([f"warm-{number}" for number in range(1_000)], 128)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for start in range(0, 50_000, 1_000):
        key_groups([f"user-{start + number}" for number in range(1_000)], 128)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert after - before < 20_000


@pytest.mark.spec("002/AX-08")
@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        (1, 128),
        (64, 128),
        (85, 128),
        (86, 256),
        (100, 256),
        (1_000, 2_048),
        (21_845, 32_768),
        (21_846, 32_768),
        (30_000, 32_768),
    ],
)
def test_default_max_parallelism_is_half_as_much_again_as_a_power_of_two(
    parallelism: int, expected: int
) -> None:
    assert default_max_parallelism(parallelism) == expected


@given(parallelism=st.integers(1, 32_768))
def test_the_default_always_leaves_room(parallelism: int) -> None:
    found = default_max_parallelism(parallelism)

    check_max_parallelism(found, parallelism)
    assert found & (found - 1) == 0
    assert found >= min(parallelism + parallelism // 2, 32_768)


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "message"),
    [
        (0, 1, "max parallelism is out of range; got 0; expected 1 to 32768"),
        (32_769, 1, "max parallelism is out of range; got 32769; expected 1 to 32768"),
        (128, 0, "parallelism is out of range; got 0; expected at least 1"),
        (
            128,
            129,
            "parallelism exceeds max parallelism; got 129; expected at most 128; raise the max parallelism",
        ),
    ],
)
def test_a_max_parallelism_that_cannot_work_is_refused(
    max_parallelism: int, parallelism: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        check_max_parallelism(max_parallelism, parallelism)
    with pytest.raises(ConfigError, match=f"^{message}"):
        ranges(parallelism, max_parallelism)


@pytest.mark.parametrize(("max_parallelism", "parallelism"), [(1, 1), (32_768, 32_768), (128, 128)])
def test_the_bounds_of_max_parallelism_are_allowed(max_parallelism: int, parallelism: int) -> None:
    assert len(ranges(parallelism, max_parallelism)) == parallelism


@given(max_parallelism=st.integers(1, 300), data=st.data())
def test_ranges_are_the_groups_of_each_owner(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))

    found = ranges(parallelism, max_parallelism)

    owned = [[owner(group, parallelism, max_parallelism)] for group in range(max_parallelism)]
    assert [
        [index for index, part in enumerate(found) if group in part] for group in range(max_parallelism)
    ] == owned
    assert [part.first for part in found] == [0, *(part.last for part in found[:-1])]
    assert sum(map(len, found)) == max_parallelism
    assert max(map(len, found)) - min(map(len, found)) <= 1


@given(max_parallelism=st.integers(1, 300), data=st.data())
def test_rescaling_hands_every_group_over_exactly_once(max_parallelism: int, data: st.DataObject) -> None:
    before, after = (ranges(data.draw(st.integers(1, max_parallelism)), max_parallelism) for _ in range(2))

    for new in after:
        parts = [part for old in before if (part := new.intersect(old))]
        assert sum(map(len, parts)) == len(new)
        assert all(group in new for part in parts for group in range(part.first, part.last))


def test_a_range_holds_its_first_and_not_its_last_group() -> None:
    groups = KeyGroupRange(3, 5)

    assert [group in groups for group in (2, 3, 4, 5)] == [False, True, True, False]
    assert len(groups) == 2
    assert groups.intersect(KeyGroupRange(4, 9)) == KeyGroupRange(4, 5)
    assert groups.intersect(groups) == groups
    assert not groups.intersect(KeyGroupRange(5, 9))
    assert not groups.intersect(KeyGroupRange(0, 3))
    assert not groups.intersect(KeyGroupRange(0, 1))
