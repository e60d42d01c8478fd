from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore, ValueState, ValueStateDescriptor
from tidegate.backends.keyed.descriptors import ListStateDescriptor, MapStateDescriptor
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import BaseHandle, KeyedHandle, Timer
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import ConfigError, InternalError, RecordError, StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange, key_bytes, key_group
from tidegate.types import Types

Open = Callable[..., KeyedStore]

COUNT = ValueStateDescriptor("count", Types.LONG())
ITEMS = ValueStateDescriptor("items", default=[])


def saved(store: KeyedStore, number: int = 1, confirmed: int | None = None) -> KeyedHandle:
    relied = CheckpointId(confirmed) if confirmed is not None else None
    return store.snapshot(CheckpointId(number), relied).finish()


def test_a_value_belongs_to_the_bound_key(open_store: Open) -> None:
    store = open_store()
    count = store.value_state(COUNT)
    store.bind("a")
    assert count.value() is None
    count.update(1)
    store.bind("b")
    assert count.value() is None
    store.bind("a")
    assert (count.value(), store.current_key) == (1, "a")
    count.clear()
    assert count.value() is None


def test_updating_with_none_clears(open_store: Open) -> None:
    store = open_store()
    count = store.value_state(ValueStateDescriptor("count", default=5))
    store.bind("a")
    count.update(1)
    count.update(None)
    assert count.value() == 5


def test_a_state_outside_of_a_record_is_refused(open_store: Open) -> None:
    store = open_store()
    count = store.value_state(COUNT)
    for use in (count.value, count.clear, lambda: count.update(1), lambda: store.current_key):
        with pytest.raises(ConfigError, match="keyed state is used without a current key"):
            use()


def test_one_name_cannot_have_two_types(open_store: Open) -> None:
    store = open_store()
    assert store.value_state(COUNT) is store.value_state(COUNT)
    with pytest.raises(ConfigError, match="state 'count' is declared twice"):
        store.value_state(ValueStateDescriptor("count", Types.STRING()))


def test_a_restored_state_of_another_type_is_refused(open_store: Open) -> None:
    store = open_store()
    store.bind("a")
    store.value_state(COUNT).update(1)
    again = open_store(saved(store))
    with pytest.raises(
        StateFormatError,
        match=r"state 'count' was stored with another type; stored as int, the program declares str; declare the stored type",
    ):
        again.value_state(ValueStateDescriptor("count", Types.STRING()))


def test_a_value_of_the_wrong_type_is_refused_at_its_first_record(open_store: Open) -> None:
    store = open_store()
    count = store.value_state(COUNT)
    store.bind("a")
    with pytest.raises(RecordError, match="declared type") as caught:
        count.update("one")
    assert "while updating state 'count' of key 'a'" in caught.value.__notes__
    assert count.value() is None


def test_a_value_spoilt_in_place_fails_the_barrier_with_state_and_key(open_store: Open) -> None:
    store = open_store()
    items = store.value_state(ValueStateDescriptor("items", Types.LIST(Types.LONG())))
    store.bind("a")
    items.update([1])
    items.value().append("two")
    with pytest.raises(RecordError) as caught:
        store.snapshot(CheckpointId(1), None)
    assert "while storing state 'items' of key 'a'" in caught.value.__notes__


def test_the_one_spoilt_value_among_many_is_named(open_store: Open) -> None:
    store = open_store()
    items = store.value_state(ValueStateDescriptor("items", Types.LIST(Types.LONG())))
    for key in "abc":
        store.bind(key)
        items.update([1])
    store.bind("b")
    items.value().append("two")
    with pytest.raises(RecordError) as caught:
        store.snapshot(CheckpointId(1), None)
    assert caught.value.__notes__ == ["while storing state 'items' of key 'b'"]


def test_rows_of_different_widths_and_kinds_are_stored_together(open_store: Open) -> None:
    store = open_store()
    older, count = store.value_state(ITEMS), store.value_state(COUNT)
    for key in "ab":
        store.bind(key)
        older.update([key])
        count.update(1)
    again = open_store(saved(store))
    count = again.value_state(COUNT)
    for key in "abc":
        again.bind(key)
        count.update((count.value() or 0) + 1)
    last = open_store(saved(again))
    older, count = last.value_state(ITEMS), last.value_state(COUNT)
    found = {}
    for key in "abc":
        last.bind(key)
        found[key] = (older.value(), count.value())
    assert found == {"a": (["a"], 2), "b": (["b"], 2), "c": ([], 1)}


def test_a_key_of_another_subtask_is_refused(open_store: Open) -> None:
    group = key_group(key_bytes("a"), 8)
    store = open_store(key_groups=KeyGroupRange(group + 1, group + 2))
    with pytest.raises(InternalError, match=f"key group {group} is not assigned to this subtask"):
        store.bind("a")


def test_in_place_changes_count_until_the_barrier_and_not_beyond(open_store: Open) -> None:
    store = open_store()
    items = store.value_state(ITEMS)
    store.bind("a")
    kept = items.value()
    kept.append(1)
    first = saved(store)
    kept.append(2)
    assert items.value() == [1]
    again = open_store(first)
    again.bind("a")
    assert again.value_state(ITEMS).value() == [1]


def test_two_keys_never_share_a_mutable_value(open_store: Open) -> None:
    store = open_store()
    items = store.value_state(ITEMS)
    shared = [1]
    for key in ("a", "b"):
        store.bind(key)
        items.update(shared)
    items.value().append(2)
    store.bind("a")
    assert items.value() == [1]


def test_reading_without_changing_logs_nothing(open_store: Open) -> None:
    store = open_store()
    items = store.value_state(ITEMS)
    store.bind("a")
    items.update([1])
    first = saved(store)
    assert items.value() == [1]
    assert saved(store, 2, confirmed=1) == first


def test_immutable_values_never_mark_a_row(open_store: Open) -> None:
    store = open_store()
    count = store.value_state(ValueStateDescriptor("pair"))
    store.bind("a")
    count.update((1, "x"))
    saved(store)
    for _ in range(2):
        assert count.value() == (1, "x")
    assert not store._cursor.changed


def test_evicted_rows_are_logged_and_come_back(open_store: Open) -> None:
    store = open_store(cache_entries=4)
    count, items = store.value_state(COUNT), store.value_state(ITEMS)
    for number in range(40):
        store.bind(number)
        count.update(number)
        items.value().append(number)
        store.end_batch()
        assert len(store._rows) <= 4
    again = open_store(saved(store))
    for opened in (store, again):
        opened.prefetch(range(40))
        for number in range(40):
            opened.bind(number)
            assert opened.value_state(COUNT).value() == number
            assert opened.value_state(ITEMS).value() == [number]


def test_a_state_declared_late_finds_rows_that_are_cached(open_store: Open) -> None:
    store = open_store()
    store.bind("a")
    store.value_state(COUNT).update(1)
    late = store.value_state(ITEMS)
    assert late.value() == []


def test_a_state_the_program_no_longer_declares_is_kept(open_store: Open) -> None:
    store = open_store()
    store.bind("a")
    store.value_state(COUNT).update(7)
    store.value_state(ITEMS).update([1])
    second = open_store(saved(store))
    second.bind("a")
    second.value_state(ITEMS).value().append(2)
    third = open_store(saved(second, 2))
    third.bind("a")
    assert (third.value_state(COUNT).value(), third.value_state(ITEMS).value()) == (7, [1, 2])


def test_handles_whose_tables_differ_are_merged_by_name(open_store: Open) -> None:
    halves = [KeyGroupRange(0, 4), KeyGroupRange(4, 8)]
    keys = {half: next(n for n in range(99) if key_group(key_bytes(n), 8) in half) for half in halves}
    handles = []
    for half, order in zip(halves, ([COUNT, ITEMS], [ITEMS, COUNT]), strict=True):
        store = open_store(key_groups=half)
        states: dict[str, ValueState[Any]] = {d.name: store.value_state(d) for d in order}
        store.bind(keys[half])
        states["count"].update(keys[half])
        states["items"].update([keys[half]])
        handles.append(saved(store))
    whole = open_store(*handles)
    for key in keys.values():
        whole.bind(key)
        assert (whole.value_state(COUNT).value(), whole.value_state(ITEMS).value()) == (key, [key])


def test_after_rescaling_twice_the_newest_value_of_a_key_wins(open_store: Open) -> None:
    halves = [KeyGroupRange(0, 4), KeyGroupRange(4, 8)]
    keys = [next(n for n in range(99) if key_group(key_bytes(n), 8) in half) for half in halves]
    whole = open_store()
    for key in keys:
        whole.bind(key)
        whole.value_state(COUNT).update(1)
    old = saved(whole)
    parts = []
    for half, key in zip(halves, keys, strict=True):
        part = open_store(old, key_groups=half)
        part.bind(key)
        part.value_state(COUNT).update(2)
        parts.append(saved(part, 2, confirmed=1))
    assert all(part.segments[0] == old.segments[0] for part in parts)
    for order in (parts, parts[::-1]):
        again = open_store(*order)
        for key in keys:
            again.bind(key)
            assert again.value_state(COUNT).value() == 2


def test_handles_that_disagree_about_a_type_are_refused(open_store: Open) -> None:
    handles = []
    for half, kind in ((KeyGroupRange(0, 4), Types.LONG()), (KeyGroupRange(4, 8), Types.DOUBLE())):
        store = open_store(key_groups=half)
        state = store.value_state(ValueStateDescriptor("sum", kind))
        store.bind(next(n for n in range(99) if key_group(key_bytes(n), 8) in half))
        state.update(1 if kind == Types.LONG() else 1.0)
        handles.append(saved(store))
    with pytest.raises(StateFormatError, match="state 'sum' was stored with another type"):
        open_store(*handles)


def test_another_backend_takes_state_over(open_store: Open, storage: MemoryStorage) -> None:
    handle: tuple[KeyedHandle, ...] = ()
    for number, backend in enumerate((HeapBackend(), RocksDBBackend(), HeapBackend())):
        store = open_store(*handle, backend=backend)
        store.bind("a")
        count = store.value_state(COUNT)
        assert count.value() == (number or None)
        count.update(number + 1)
        saved(store, 1)
        handle = (saved(store, 2, confirmed=None),)
        assert handle[0].base is None or handle[0].base.backend == backend.name


def test_what_taking_a_base_over_needed_is_removed(open_store: Open, tmp_path: Path) -> None:
    store = open_store(backend=RocksDBBackend())
    store.bind("a")
    store.value_state(COUNT).update(1)
    saved(store, 1)
    saved(store, 2, confirmed=1)
    based = saved(store, 3)
    assert based.base is not None
    open_store(based, backend=HeapBackend())
    assert [path.name for path in (tmp_path / "1").iterdir()] == ["store"]


def test_a_base_without_a_table_is_refused(open_store: Open) -> None:
    handle = KeyedHandle(KeyGroupRange(0, 8), BaseHandle("filesystem", 1, ()), ())
    store = open_store()
    store.bind("a")
    store.value_state(COUNT).update(1)
    saved(store, 1)
    saved(store, 2, confirmed=1)
    based = saved(store, 3)
    assert handle.base is not None
    assert based.base is not None
    with pytest.raises(StateCorruptError, match="has a base but no log segment that describes its states"):
        open_store(KeyedHandle(based.key_groups, based.base, ()))


def test_the_table_is_found_when_there_is_only_a_base(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    store.bind("a")
    store.value_state(COUNT).update(1)
    saved(store, 1)
    saved(store, 2, confirmed=1)
    based = saved(store, 3)
    files = StorageFiles(storage.blobs, "run")
    assert based.base is not None
    assert [len(read_segment(files, chunk).entries) for chunk in based.segments] == [0]
    again = open_store(based)
    again.bind("a")
    assert again.value_state(COUNT).value() == 1


def test_the_last_of_a_key_leaves_nothing_behind(open_store: Open) -> None:
    store = open_store(cache_entries=1)
    count = store.value_state(COUNT)
    items = store.state(ListStateDescriptor("items"))
    table = store.state(MapStateDescriptor("table"), namespaced=True)
    for key in ("a", "b"):
        store.bind(key)
        assert (count.value(), items.get()) == (None, [])
        count.update(1)
        items.add_all(range(500))
        for window in (b"one", b"two"):
            store.bind_in(key, window)
            assert table.is_empty()
            table.put("x", 1)
        store.end_batch()
        store.event_timers.register(Timer(1, key))
        with store.last_of_key():
            assert [timer.key for timer in store.event_timers.due(1)] == [key]
            store.event_timers.register(Timer(0, key))
            store.processing_timers.register(Timer(0, key))

    again = open_store(saved(store))
    again.value_state(COUNT)
    assert (list(again.keys("count")), again.event_timers.next_time()) == ([], None)


def test_a_state_is_unbound_behind_the_last_of_a_key(open_store: Open) -> None:
    store = open_store()
    count = store.value_state(COUNT)
    store.bind("a")
    with store.last_of_key():
        count.update(1)

    with pytest.raises(ConfigError, match="keyed state is used without a current key"):
        count.value()


def test_a_tuple_that_holds_something_mutable_is_not_taken_for_one_that_does_not(open_store: Open) -> None:
    store = open_store()
    held: ValueState[Any] = store.value_state(ValueStateDescriptor("held"))
    store.bind("plain")
    held.update((1, 2))
    assert held.value() == (1, 2)
    given = (1, [2])
    store.bind("a")
    held.update(given)
    given[1].append(98)
    kept = held.value()
    kept[1].append(3)
    handle = store.snapshot(CheckpointId(1), None).finish()
    kept[1].append(99)
    for opened in (store, open_store(handle)):
        state: ValueState[Any] = opened.value_state(ValueStateDescriptor("held"))
        opened.bind("a")
        assert state.value() == (1, [2, 3])
        opened.bind("plain")
        assert state.value() == (1, 2)


def test_a_reduction_gives_away_copies_of_what_can_change_and_keeps_its_own(open_store: Open) -> None:
    def extended(before: tuple[str, list[int]], value: tuple[str, list[int]]) -> tuple[str, list[int]]:
        before[1].extend(value[1])
        return before

    store = open_store()
    state: ValueState[Any] = store.value_state(ValueStateDescriptor("reduced"))
    take_in = state.reducer(extended)
    store.bind("a")
    given = ("a", [1])
    first, second = take_in(given), take_in(("a", [2]))
    for seen in (given, first, second):
        seen[1].append(99)
    assert state.value() == ("a", [1, 2])
    assert take_in(("a", [3])) == ("a", [1, 2, 3])
    handle = store.snapshot(CheckpointId(1), None).finish()
    again = open_store(handle)
    restored: ValueState[Any] = again.value_state(ValueStateDescriptor("reduced"))
    again.bind("a")
    assert restored.value() == ("a", [1, 2, 3])


def test_a_reduction_to_nothing_begins_anew(open_store: Open) -> None:
    store = open_store()
    state: ValueState[Any] = store.value_state(ValueStateDescriptor("reduced"))
    take_in = state.reducer(lambda before, value: None if value == 0 else before + value)
    store.bind("a")
    assert [take_in(value) for value in (1, 2, 0, 5, 6)] == [1, 3, None, 5, 11]


@pytest.mark.parametrize("large", ["value", "entry", "key"])
def test_what_is_too_large_for_its_backend_is_named_when_it_is_written(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    monkeypatch.setattr("tidegate.backends.rocksdb._client.MAX_ENTRY_BYTES", 1_000)
    store = open_store(backend=RocksDBBackend())
    text = store.value_state(ValueStateDescriptor("text", Types.STRING()))
    many = store.state(MapStateDescriptor("many", Types.STRING(), Types.STRING()))
    for number in range(5):
        store.bind(f"small {number}")
        text.update("x" * 500)
    key = "k" * (990 if large == "key" else 3)
    store.bind(key)
    if large == "entry":
        many.put("x", "y" * 1_000)
    else:
        text.update("x" * (10 if large == "key" else 1_000))

    name, shown = "many" if large == "entry" else "text", "'k" + "k" * (2 if large != "key" else 20)
    with pytest.raises(
        StateFormatError,
        match=rf"state '{name}' of key {shown}.*: an entry is too large for RocksDB; got 10\d\d bytes; expected at "
        "most 1000; spread it over several keys",
    ):
        store.snapshot(CheckpointId(1), None)
