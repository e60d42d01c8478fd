"""Operator lists: few items stand in the metadata, many in a file, and it makes no difference to who gets which."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.backends.spi import StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import StateCorruptError
from tidegate.keys import KeyGroupRange
from tidegate.runtime.operators.operator_list import OperatorList, joined, read, written

HELD = st.lists(st.lists(st.binary(max_size=3), max_size=6).map(tuple), min_size=1, max_size=4)


@given(held=HELD, stored=st.sets(st.integers(0, 3)), data=st.data())
def test_lists_in_files_are_joined_and_divided_like_lists_in_memory(
    held: list[tuple[bytes, ...]], stored: set[int], data: st.DataObject
) -> None:
    files = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)
    lists = [OperatorList("queue", items, "union", "of bytes") for items in held]
    mixed = [written(each, files) if number in stored else each for number, each in enumerate(lists)]
    every = tuple(item for items in held for item in items)
    together = joined(mixed)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(every)), max_size=4)))
    assert together.count == len(every)
    assert read(together, files).items == every
    for first, last in pairwise([0, *bounds, len(every)]):
        part = together.part(first, last)
        assert part.count == last - first
        again = part.part(1, part.count)
        assert read(part, files) == OperatorList("queue", every[first:last], "union", "of bytes")
        assert read(again, files).items == every[first:last][1:]


@given(
    groups=st.lists(st.sets(st.integers(0, 20)), min_size=1, max_size=3),
    stored=st.sets(st.integers(0, 2)),
    bounds=st.lists(st.integers(0, 21)),
)
def test_items_of_key_groups_go_to_the_one_who_has_the_group(
    groups: list[set[int]], stored: set[int], bounds: list[int]
) -> None:
    files = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)
    lists = []
    for number, each in enumerate(groups):
        here = tuple(21 * number + group for group in sorted(each))
        held = OperatorList("raw-keyed", tuple(b"%d" % group for group in here), "key group", groups=here)
        lists.append(written(held, files) if number in stored else held)
    together = joined(lists)
    every = [21 * number + group for number, each in enumerate(groups) for group in sorted(each)]
    for first, last in pairwise([0, *sorted(bounds), 63]):
        mine = read(together.of_groups(KeyGroupRange(first, last)), files)
        assert mine.groups == tuple(group for group in every if first <= group < last)
        assert mine.items == tuple(b"%d" % group for group in mine.groups)


def test_the_metadata_does_not_grow_with_what_a_list_holds() -> None:
    files = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=1_000)
    sizes = [
        len(msgspec.msgpack.encode(written(OperatorList("queue", (b"x" * 50,) * count), files)))
        for count in (100, 100_000)
    ]
    assert sizes[1] - sizes[0] < 10
    assert max(sizes) < 250


def test_few_items_need_no_file() -> None:
    storage = MemoryStorage()
    files = StorageFiles(storage.blobs, "run", inline_threshold=1_000)
    few = OperatorList("queue", (b"a", b"b"))
    assert written(few, files) is few
    assert few.files == ()
    assert storage.blobs.list("") == []


def test_a_damaged_file_is_refused() -> None:
    storage = MemoryStorage()
    files = StorageFiles(storage.blobs, "run", inline_threshold=0)
    held = written(OperatorList("queue", (b"a", b"b")), files)
    assert isinstance(held.pieces, tuple)
    (name,) = held.files
    assert isinstance(held.pieces[0].chunk, StoredChunk)
    storage.blobs.put(name, b"other")
    with pytest.raises(StateCorruptError, match=f"state file {name} is damaged"):
        read(held, files)
