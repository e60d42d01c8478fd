"""What lists and maps write: little, in chunks and entries, and nothing that stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.backends.keyed import (
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.list_state import CHUNK_BYTES, CHUNK_ITEMS
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.spi import Entry, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import ConfigError, RecordError, StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange, key_bytes, key_group
from tidegate.types import Types

Open = Callable[..., KeyedStore]

NUMBERS = ListStateDescriptor("numbers", Types.LONG())
TABLE = MapStateDescriptor("table", Types.STRING(), Types.LONG())


def saved(store: KeyedStore, number: int = 1, confirmed: int | None = None) -> KeyedHandle:
    relied = CheckpointId(confirmed) if confirmed is not None else None
    return store.snapshot(CheckpointId(number), relied).finish()


def last_segment(handle: KeyedHandle, storage: MemoryStorage) -> list[Entry]:
    return read_segment(StorageFiles(storage.blobs, "run"), handle.segments[-1]).entries


def bound(store: KeyedStore, descriptor: Any, key: Any = "a") -> Any:
    state = store.state(descriptor)
    store.bind(key)
    return state


def test_a_list_that_grows_writes_its_full_chunks_once(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    numbers = bound(store, NUMBERS)
    numbers.add_all(range(10 * CHUNK_ITEMS + 3))
    first = last_segment(saved(store), storage)
    assert len(first) == 11
    numbers.add(7)
    (changed,) = last_segment(saved(store, 2, confirmed=1), storage)
    assert len(changed[1] or b"") < 30
    assert numbers.get() == [*range(10 * CHUNK_ITEMS + 3), 7]


def test_large_elements_fill_a_chunk_by_their_bytes(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    texts = bound(store, ListStateDescriptor("texts", Types.STRING()))
    texts.add_all(["x" * CHUNK_BYTES] * 3)
    assert len(last_segment(saved(store), storage)) == 4
    assert (
        list(bound(open_store(saved(store, 2)), ListStateDescriptor("texts", Types.STRING())))
        == ["x" * CHUNK_BYTES] * 3
    )


def test_one_element_changed_in_place_writes_its_chunk_alone(
    open_store: Open, storage: MemoryStorage
) -> None:
    store = open_store()
    rows = bound(store, ListStateDescriptor("rows"))
    rows.add_all([[number] for number in range(3 * CHUNK_ITEMS)])
    saved(store)
    rows.get()[CHUNK_ITEMS].append("changed")
    assert len(last_segment(saved(store, 2, confirmed=1), storage)) == 1
    assert rows.get()[CHUNK_ITEMS] == [CHUNK_ITEMS, "changed"]


def test_a_map_writes_the_entries_that_changed(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    table = bound(store, TABLE)
    table.put_all({f"k{number}": number for number in range(1_500)})
    saved(store)
    table["k1"] = -1
    del table["k2"]
    changed = last_segment(saved(store, 2, confirmed=1), storage)
    assert sorted(value is None for _, value in changed) == [False, True]
    assert (table["k1"], table["k2"], "k3" in table, sum(1 for _ in table)) == (-1, None, True, 1_499)
    assert sum(table.values()) == sum(range(1_500)) - 4


def test_a_map_takes_pairs_as_well(open_store: Open) -> None:
    table = bound(open_store(), TABLE)
    table.put_all({"a": 1}.items())
    table.put_all([("b", 2), ("a", 3)])
    assert sorted(table.items()) == [("a", 3), ("b", 2)]


def test_reading_collections_logs_nothing(open_store: Open) -> None:
    store = open_store()
    table, rows = bound(store, MapStateDescriptor("lists")), bound(store, ListStateDescriptor("rows"))
    table.put("x", [1])
    rows.add_all([[number] for number in range(100)])
    first = saved(store)
    assert (list(table.items()), len(rows.get()), table.is_empty()) == ([("x", [1])], 100, False)
    assert saved(store, 2, confirmed=1) == first


def test_an_empty_key_has_no_entries_left(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    table, numbers = bound(store, TABLE), bound(store, NUMBERS)
    table.put("x", 1)
    numbers.add_all(range(200))
    saved(store)
    table.remove("x")
    numbers.clear()
    entries = last_segment(saved(store, 2, confirmed=1), storage)
    assert len(entries) == 5
    assert {value for _, value in entries} == {None}
    assert list(store.keys("table")) == []


def test_map_keys_are_the_same_if_python_calls_them_equal(open_store: Open) -> None:
    table = bound(open_store(), MapStateDescriptor("untyped"))
    table.put(1, "int")
    table.put(1.0, "float")
    table.put(True, "bool")
    assert list(table.items()) == [(1, "bool")]


def test_a_map_can_change_while_it_is_read(open_store: Open) -> None:
    store = open_store()
    table = bound(store, TABLE)
    table.put_all({f"k{number}": number for number in range(5)})
    saved(store)
    for key in table:
        table.remove(key)
        table.put("new", 1)
    assert dict(table.items()) == {"new": 1}
    saved(store, 2)
    for _ in table.items():
        table.clear()
    assert table.is_empty()


def test_values_of_the_wrong_type_are_refused_at_once(open_store: Open) -> None:
    store = open_store()
    refusals: tuple[Callable[[], None], ...] = (
        lambda: bound(store, TABLE).put("x", "text"),
        lambda: bound(store, NUMBERS).add("text"),
        lambda: bound(store, ReducingStateDescriptor("most", max, Types.LONG())).add("text"),
    )
    for refuse in refusals:
        with pytest.raises(RecordError, match="declared type") as caught:
            refuse()
        assert "of key 'a'" in caught.value.__notes__[-1]


def test_one_name_cannot_be_two_kinds(open_store: Open) -> None:
    store = open_store()
    bound(store, NUMBERS).add(1)
    with pytest.raises(ConfigError, match=r"state 'numbers' is declared twice"):
        store.state(MapStateDescriptor("numbers"))
    with pytest.raises(
        StateFormatError,
        match=r"state 'numbers' was stored with another type; stored as .*, the program declares int",
    ):
        open_store(saved(store)).state(ValueStateDescriptor("numbers", Types.LONG()))


def test_maps_with_other_keys_are_other_states(open_store: Open) -> None:
    store = open_store()
    bound(store, TABLE).put("x", 1)
    with pytest.raises(
        StateFormatError,
        match="stored as map of str to int, the program declares map of int to int; the kind of",
    ):
        open_store(saved(store)).state(MapStateDescriptor("table", Types.LONG(), Types.LONG()))


def test_collections_of_handles_whose_tables_differ_are_merged_by_name(open_store: Open) -> None:
    halves = [KeyGroupRange(0, 4), KeyGroupRange(4, 8)]
    keys = [next(n for n in range(99) if key_group(key_bytes(n), 8) in half) for half in halves]
    handles = []
    for half, key, order in zip(halves, keys, ([NUMBERS, TABLE], [TABLE, NUMBERS]), strict=True):
        store = open_store(key_groups=half)
        for descriptor in order:
            bound(store, descriptor, key)
        store.state(NUMBERS).add_all(range(100))
        store.state(TABLE).put("key", key)
        handles.append(saved(store))
    whole = open_store(*handles)
    for key in keys:
        assert bound(whole, NUMBERS, key).get() == [*range(100)]
        assert dict(bound(whole, TABLE, key).items()) == {"key": key}


def test_a_missing_chunk_is_reported(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    bound(store, NUMBERS).add_all(range(100))
    saved(store)
    ((chunk, _),) = store._materialisation.scan(b"\0\0\0\x10", b"\xff")
    store._materialisation.apply([(chunk, None)])
    with pytest.raises(StateCorruptError, match="chunk 0 of a list of 1 is missing"):
        store.state(NUMBERS).get()


def test_collections_are_used_where_a_key_is_bound(open_store: Open) -> None:
    store = open_store()
    bound(store, TABLE)
    store.unbind()
    for use in (store.state(TABLE).is_empty, store.state(NUMBERS).get):
        with pytest.raises(ConfigError, match="keyed state is used without a current key"):
            use()


def test_a_map_of_one_hot_key_is_bounded_by_batches_not_only_by_barriers(
    open_store: Open, storage: MemoryStorage
) -> None:
    store = open_store()
    table = bound(store, TABLE)
    for number in range(5_000):
        table.put(f"k{number}", number)
        if number % 500 == 499:
            store.end_batch()
            store.bind("a")
            assert len(table.content(store.cursor.row).cached) <= 1_000
    assert (table.get("k7"), table.get("k4999"), table.get("none")) == (7, 4_999, None)
    assert len(last_segment(saved(store), storage)) == 5_001


def test_reading_a_large_map_keeps_no_more_than_a_batch_of_it(open_store: Open) -> None:
    store = open_store()
    table = bound(store, TABLE)
    table.put_all({f"k{number}": number for number in range(3_000)})
    saved(store)
    assert sum(table.get(f"k{number}") for number in range(3_000)) == sum(range(3_000))
    store.end_batch()
    store.bind("a")
    assert len(table.content(store.cursor.row).cached) == 0
    assert table.get("k2999") == 2_999


def test_a_large_map_of_a_namespace_that_was_deleted_is_not_written(open_store: Open) -> None:
    store = open_store()
    table = store.state(TABLE, namespaced=True)
    store.bind_in("a", b"w")
    table.put_all({f"k{number}": number for number in range(1_500)})
    store.delete_in("a", b"w")
    store.end_batch()
    assert saved(store).segments == ()


def test_keys_of_a_map_that_are_equal_are_one_whichever_way_they_come(open_store: Open) -> None:
    counts = bound(open_store(), MapStateDescriptor("counts"))
    counts.put(1, "one")
    counts.put(True, "true")
    counts.put((1, 2.0), "pair")
    assert (counts.get(1.0), counts.get((True, 2))) == ("true", "pair")
    assert sorted(map(repr, counts.keys())) == ["(1, 2)", "1"]
