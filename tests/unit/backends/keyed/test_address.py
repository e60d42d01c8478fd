from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.keyed.address import (
    ROWS,
    Parts,
    address,
    after,
    group_of,
    range_bounds,
    row_addresses,
    split,
    state_prefix,
)
from tidegate.errors import StateCorruptError
from tidegate.keys import KeyGroupRange

BYTES = (
    st.lists(st.sampled_from([b"\0", b"\1", b"a", b"\xff", b"\0\xff"]), max_size=4).map(b"".join)
    | st.binary()
)
PARTS = st.builds(Parts, st.integers(0, 32_767), st.integers(0, 300), BYTES, BYTES, BYTES)


@given(PARTS)
def test_split_gives_back_what_an_address_was_made_of(parts: Parts) -> None:
    assert split(address(*parts)) == parts
    assert group_of(address(*parts)) == parts.key_group


@given(PARTS, PARTS)
def test_addresses_sort_as_their_parts(one: Parts, other: Parts) -> None:
    assert (address(*one) < address(*other)) == (one < other)


@given(PARTS, PARTS)
def test_no_address_is_the_prefix_of_another(one: Parts, other: Parts) -> None:
    assert one == other or not address(*one).startswith(address(*other))


@given(PARTS)
def test_an_address_lies_between_its_prefix_and_what_comes_after(parts: Parts) -> None:
    prefix = state_prefix(parts.key_group, parts.state)
    first, last = range_bounds(KeyGroupRange(parts.key_group, parts.key_group + 1))
    assert first <= prefix <= address(*parts) < after(prefix)
    assert address(*parts) < last


@given(st.lists(st.tuples(st.integers(0, 32_767), BYTES)))
def test_the_addresses_of_many_rows_are_those_of_each(rows: list[tuple[int, bytes]]) -> None:
    groups, keys = [group for group, _ in rows], [key for _, key in rows]
    assert row_addresses(groups, keys) == [address(group, ROWS, key) for group, key in rows]


@pytest.mark.parametrize("bad", [b"", b"\0\1", b"\0\1\0\0key", address(0, 0, b"k") + b"more"])
def test_a_malformed_address_is_refused(bad: bytes) -> None:
    with pytest.raises(StateCorruptError, match=r"state address .* is malformed"):
        split(bad)
