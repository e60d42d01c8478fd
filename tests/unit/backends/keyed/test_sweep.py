"""How what has expired goes away when nobody reads it, on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.keyed.conftest import Open
from tests.unit.backends.keyed.expiring import checkpoint, living, stored_values
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import (
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.restore import read_base
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.savepoint import read_table, write_keyed
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import ManualClock


def test_cleanup_may_be_switched_on_and_off_over_a_restore(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    describe, write, _ = kind
    store = reopen()
    state = store.state(living(describe(), "disable_cleanup_in_background"))
    for number in range(3):
        store.bind(number)
        write(state)
    handle = checkpoint(store)
    clock.advance(1_000)
    for cleanup, left in (
        ({"cleanup_in_rocksdb_compact_filter": (10,)}, 0),
        ({"disable_cleanup_in_background": ()}, 3),
        ({"cleanup_full_snapshot": (), "disable_cleanup_in_background": ()}, 3),
    ):
        again = reopen(handle)
        again.state(living(describe(), **cleanup))
        alone = checkpoint(again, 2)
        assert stored_values(again) == left
        last = reopen(alone)
        last.state(living(describe(), "disable_cleanup_in_background"))
        assert stored_values(last) == (0 if "cleanup_full_snapshot" in cleanup else left)


@pytest.mark.spec("002/AX-37")
def test_a_full_snapshot_leaves_out_what_has_expired_and_the_job_keeps_it(
    reopen: Open, clock: ManualClock
) -> None:
    says = ("cleanup_full_snapshot", "disable_cleanup_in_background")
    store = reopen()
    state = store.state(living(ValueStateDescriptor("seen"), *says))
    for number in range(5):
        if number == 3:
            clock.advance(1_000)
        store.bind(number)
        state.update(number)
    handle = checkpoint(store)
    assert stored_values(store) == 5
    restored = reopen(handle)
    restored.state(living(ValueStateDescriptor("seen"), *says))
    assert stored_values(restored) == 2
    incremental = reopen(checkpoint(store, 2, confirmed=1))
    incremental.state(living(ValueStateDescriptor("seen"), *says))
    assert stored_values(incremental) == 2


def test_a_full_snapshot_leaves_out_expired_elements_and_entries(reopen: Open, clock: ManualClock) -> None:
    says = ("cleanup_full_snapshot", "disable_cleanup_in_background", "return_expired_if_not_cleaned_up")
    store = reopen()
    store.bind("a")
    for number in range(100):
        if number == 60:
            clock.advance(1_000)
        store.state(living(ListStateDescriptor("elements"), *says)).add(number)
        store.state(living(MapStateDescriptor("entries"), *says)).put(number, number)
    restored = reopen(checkpoint(store))
    restored.bind("a")
    assert restored.state(living(ListStateDescriptor("elements"), *says)).get() == list(range(60, 100))
    entries = restored.state(living(MapStateDescriptor("entries"), *says))
    assert sorted(entries.keys()) == list(range(60, 100))


def expired(reopen: Open, clock: ManualClock, kind: Any, **cleanup: Any) -> tuple[KeyedStore, Any]:
    """A store in which the values of twelve keys have expired, restored by a store with nothing in its cache."""
    describe, write, _ = kind
    first = reopen()
    state = first.state(living(describe(), "return_expired_if_not_cleaned_up", **cleanup))
    for number in range(12):
        first.bind(number)
        write(state)
    handle = checkpoint(first)
    clock.advance(1_000)
    store = reopen(handle)
    return store, store.state(living(describe(), "return_expired_if_not_cleaned_up", **cleanup))


@pytest.mark.spec("002/AX-38")
def test_each_access_looks_at_some_entries(reopen: Open, clock: ManualClock, kind: Any) -> None:
    read = kind[2]
    store, state = expired(reopen, clock, kind, cleanup_incrementally=(5, False))
    store.prefetch(["of another key", "and one more"])
    store.end_batch()
    assert stored_values(store) == 12
    for left in (7, 2, 0):
        store.bind("of another key")
        read(state)
        assert stored_values(store) == left


@pytest.mark.spec("002/AX-38")
def test_each_record_looks_at_some_entries_if_asked_to(reopen: Open, clock: ManualClock, kind: Any) -> None:
    store, _ = expired(reopen, clock, kind, cleanup_incrementally=(10, True))
    for left in (2, 0):
        store.prefetch(["a record"])
        assert stored_values(store) == left


@pytest.mark.spec("002/AX-38")
def test_five_entries_are_looked_at_with_each_access_and_none_with_a_record_unless_said_otherwise(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    read = kind[2]
    store, state = expired(reopen, clock, kind)
    store.prefetch(["a record"])
    assert stored_values(store) == 12
    store.bind("a record")
    read(state)
    assert stored_values(store) == 7


def test_some_entries_are_looked_at_before_each_checkpoint(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    store, _ = expired(reopen, clock, kind, cleanup_in_rocksdb_compact_filter=(8,))
    checkpoint(store, 2, confirmed=1)
    assert stored_values(store) == 4
    checkpoint(store, 3, confirmed=1)
    assert stored_values(store) == 0


def test_a_new_base_holds_nothing_that_has_expired(
    reopen: Open, clock: ManualClock, kind: Any, storage: MemoryStorage, tmp_path: Path
) -> None:
    store, _ = expired(reopen, clock, kind, cleanup_in_rocksdb_compact_filter=(1,))
    handle = checkpoint(store, 2)
    assert handle.base is not None
    context = BackendContext(tmp_path, StorageFiles(storage.blobs, "run", inline_threshold=0), {})
    assert list(read_base(handle.base, context, 0)) == []
    assert stored_values(store) == 0


@pytest.mark.parametrize(
    ("cleanup", "left"),
    [({}, 1), ({"disable_cleanup_in_background": ()}, 3)],
    ids=["as it is", "without"],
)
def test_canonical_files_hold_nothing_that_has_expired(
    reopen: Open,
    clock: ManualClock,
    kind: Any,
    storage: MemoryStorage,
    tmp_path: Path,
    cleanup: Any,
    left: int,
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe(), **cleanup))
    for number in range(3):
        clock.advance(400)
        store.bind(number)
        write(state)
    handle = checkpoint(store)
    clock.advance(600)
    context = BackendContext(tmp_path, StorageFiles(storage.blobs, "run", inline_threshold=0), {})
    target = StorageFiles(storage.blobs, "savepoint")
    (taken,) = write_keyed("one", [handle], 8, FilesystemBackend(), context, target, now_ms=clock.now_ms())
    assert taken.base is not None
    (file,) = [chunk for name, chunk in taken.base.files if "/state=seen/" in name]
    path = tmp_path / "file"
    path.write_bytes(context.files.fetch(file))
    assert len(set(read_table([path], 8)["key"].to_pylist())) == left
    again = reopen(taken)
    state = again.state(living(describe(), "disable_cleanup_in_background"))
    assert stored_values(again) == left
    again.bind(2)
    assert read(state) == 7


def test_nothing_is_looked_at_in_the_background_where_that_is_disabled(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    read = kind[2]
    store, state = expired(reopen, clock, kind, disable_cleanup_in_background=())
    store.bind("of another key")
    read(state)
    checkpoint(store, 2)
    assert stored_values(store) == 12


def test_cached_rows_and_namespaces_are_swept_too(
    reopen: Open, clock: ManualClock, storage: MemoryStorage
) -> None:
    store = reopen()
    descriptor = living(ValueStateDescriptor("seen"), cleanup_in_rocksdb_compact_filter=(100,))
    state = store.state(descriptor, namespaced=True)
    for number in range(3):
        store.bind_in(number, b"w")
        state.update(number)
    clock.advance(1_000)
    store.bind_in(3, b"w")
    state.update(3)
    (segment,) = checkpoint(store).segments
    entries = read_segment(StorageFiles(storage.blobs, "run"), segment).entries
    assert [value is not None for _, value in entries] == [True]
