"""States that expire, on every backend: what is seen, what prolongs a life, and how what has expired goes away."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.keyed.conftest import Open
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import (
    AggregatingStateDescriptor,
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.restore import read_base
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.ttl import StateTtlConfig
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.savepoint import read_table, write_keyed
from tidegate.backends.spi import BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import ManualClock
from tidegate.common import Duration, Time
from tidegate.datastream import AggregateFunction
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import TypeInformation, Types

BACKENDS = {"heap": HeapBackend, "filesystem": FilesystemBackend, "rocksdb": RocksDBBackend}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def reopen(open_store: Open, clock: ManualClock, request: pytest.FixtureRequest) -> Open:
    """Opens stores over each backend that live by `clock`."""
    return functools.partial(open_store, backend=request.param(), now_ns=clock.now_ns)


class Total(AggregateFunction):
    """A sum in a list."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0]]


def living(descriptor: StateDescriptor, *says: str, **with_arguments: Any) -> Any:
    """The descriptor with a life of a second."""
    builder: Any = StateTtlConfig.new_builder(Time.seconds(1))
    for name in says:
        builder = getattr(builder, name)()
    for name, arguments in with_arguments.items():
        builder = getattr(builder, name)(*arguments)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def checkpoint(store: KeyedStore, number: int = 1, confirmed: int | None = None) -> KeyedHandle:
    relied_on = None if confirmed is None else CheckpointId(confirmed)
    return store.snapshot(CheckpointId(number), relied_on).finish()


def stored_values(store: KeyedStore) -> int:
    """How many keys have a value, expired or not, after everything is written."""
    return len(list(store.keys("seen")))


READS: dict[str, tuple[Callable[[], StateDescriptor], Callable[[Any], None], Callable[[Any], Any]]] = {
    "value": (lambda: ValueStateDescriptor("seen"), lambda s: s.update(7), lambda s: s.value()),
    "mutable value": (
        lambda: ValueStateDescriptor("seen"),
        lambda s: s.update([7]),
        lambda s: None if s.value() is None else s.value()[0],
    ),
    "list": (lambda: ListStateDescriptor("seen"), lambda s: s.add(7), lambda s: sum(s) or None),
    "map": (lambda: MapStateDescriptor("seen"), lambda s: s.put("a", 7), lambda s: s.get("a")),
    "map entries": (
        lambda: MapStateDescriptor("seen"),
        lambda s: s.put("a", 7),
        lambda s: dict(s.items()).get("a"),
    ),
    "reducing": (
        lambda: ReducingStateDescriptor("seen", max),
        lambda s: s.add(7),
        lambda s: s.get(),
    ),
    "aggregating": (
        lambda: AggregatingStateDescriptor("seen", Total()),
        lambda s: s.add(7),
        lambda s: s.get(),
    ),
}


@pytest.fixture(params=list(READS.values()), ids=list(READS))
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.spec("002/AX-35")
@pytest.mark.parametrize("settled", [False, True], ids=["in one epoch", "over barriers"])
def test_a_read_prolongs_a_life_only_if_asked_to(
    reopen: Open, clock: ManualClock, kind: Any, *, settled: bool
) -> None:
    describe, write, read = kind
    for updates, expected in (("update_ttl_on_create_and_write", None), ("update_ttl_on_read_and_write", 7)):
        store = reopen()
        state = store.state(living(describe(), updates))
        store.bind("a")
        write(state)
        clock.advance(900)
        assert read(state) == 7
        if settled:
            checkpoint(store)
        clock.advance(600)
        assert read(state) == expected


@pytest.mark.spec("002/AX-35")
def test_what_has_expired_is_seen_once_by_the_read_that_removes_it(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(
        living(describe(), "return_expired_if_not_cleaned_up", "disable_cleanup_in_background")
    )
    store.bind("a")
    write(state)
    clock.advance(1_500)
    assert store.current_key == "a"
    if read is READS["mutable value"][2]:
        assert state.value() == [7]
    else:
        assert read(state) == 7
    assert read(state) is None


MATRIX = [
    # what prolongs a life, what is shown; then what reads see 900, 600 and 1,500 ms after the write and each other
    ("update_ttl_on_create_and_write", "never_return_expired", [7, None, None]),
    ("update_ttl_on_create_and_write", "return_expired_if_not_cleaned_up", [7, 7, None]),
    ("update_ttl_on_read_and_write", "never_return_expired", [7, 7, None]),
    ("update_ttl_on_read_and_write", "return_expired_if_not_cleaned_up", [7, 7, 7]),
]


@pytest.mark.spec("004/AX-026")
@pytest.mark.parametrize(("updates", "shows", "seen"), MATRIX)
def test_expiry_what_prolongs_a_life_and_what_is_shown_combine(
    reopen: Open, clock: ManualClock, kind: Any, updates: str, shows: str, seen: list[int | None]
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe(), updates, shows, "disable_cleanup_in_background"))
    store.bind("a")
    write(state)
    found = []
    for wait in (900, 600, 1_500):
        clock.advance(wait)
        # Reading a mutable value looks twice, and what has expired is shown only once.
        value = state.value() if read is READS["mutable value"][2] else read(state)
        found.append(value[0] if isinstance(value, list) else value)
    assert found == seen
    assert read(state) is None


def test_a_life_that_a_read_prolonged_is_in_the_next_checkpoint(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe(), "update_ttl_on_read_and_write"))
    store.bind("a")
    write(state)
    checkpoint(store)
    clock.advance(900)
    assert read(state) == 7
    handle = checkpoint(store, 2, confirmed=1)
    clock.advance(900)
    restored = reopen(handle)
    restored.bind("a")
    assert read(restored.state(living(describe(), "update_ttl_on_read_and_write"))) == 7


def test_lives_go_on_over_a_restore(reopen: Open, clock: ManualClock, kind: Any) -> None:
    describe, write, read = kind
    store = reopen()
    store.bind("a")
    write(store.state(living(describe())))
    handle = checkpoint(store)
    for waited, expected in ((900, 7), (100, None)):
        clock.advance(waited)
        restored = reopen(handle)
        restored.bind("a")
        assert read(restored.state(living(describe()))) == expected


def test_elements_and_entries_expire_by_their_own(reopen: Open, clock: ManualClock) -> None:
    store = reopen()
    elements = store.state(living(ListStateDescriptor("elements")))
    entries = store.state(living(MapStateDescriptor("entries")))
    store.bind("a")
    for number in range(3):
        elements.add(number)
        entries.put(number, [number])
        clock.advance(400)
    assert elements.get() == [1, 2]
    assert dict(entries.items()) == {1: [1], 2: [2]}
    assert sorted(entries.keys()) == [1, 2]
    assert 0 not in entries
    assert 1 in entries
    clock.advance(600)
    assert elements.get() == []
    assert entries.is_empty()


def test_changing_a_value_in_place_counts_and_prolongs_nothing(reopen: Open, clock: ManualClock) -> None:
    store = reopen()
    value = store.state(living(ValueStateDescriptor("value", default=[])))
    elements = store.state(living(ListStateDescriptor("elements")))
    store.bind("a")
    value.value().append(1)
    elements.add([])
    elements.get()[0].append(2)
    clock.advance(900)
    value.value().append(3)
    handle = checkpoint(store)
    assert (value.value(), elements.get()) == ([1, 3], [[2]])
    restored = reopen(handle)
    restored.bind("a")
    assert restored.state(living(ValueStateDescriptor("value", default=[]))).value() == [1, 3]
    clock.advance(100)
    assert restored.state(living(ValueStateDescriptor("value", default=[]))).value() == []
    assert restored.state(living(ListStateDescriptor("elements"))).get() == []


@pytest.mark.parametrize("switched_on", [True, False], ids=["on", "off"])
@pytest.mark.spec("002/AX-36")
def test_time_to_live_cannot_be_switched_for_stored_state(
    reopen: Open, kind: Any, *, switched_on: bool
) -> None:
    describe, write, _ = kind
    store = reopen()
    store.bind("a")
    write(store.state(describe() if switched_on else living(describe())))
    restored = reopen(checkpoint(store))
    with pytest.raises(
        StateFormatError,
        match=r"state 'seen' was stored with another type; got .* expiring"
        if switched_on
        else r"expected \w+ .*expiring",
    ):
        restored.state(living(describe()) if switched_on else describe())


def test_how_long_values_live_may_change_over_a_restore(reopen: Open, clock: ManualClock) -> None:
    store = reopen()
    store.bind("a")
    store.state(living(ValueStateDescriptor("seen"))).update(7)
    handle = checkpoint(store)
    clock.advance(1_500)
    longer = ValueStateDescriptor("seen")
    longer.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(2)).build())
    restored = reopen(handle)
    restored.bind("a")
    assert restored.state(longer).value() == 7


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


@pytest.mark.parametrize("optional", [None, Types.OPTIONAL(Types.LONG())], ids=["untyped", "optional"])
def test_none_is_an_entry_and_an_element_like_any_other_where_the_type_has_it(
    reopen: Open, clock: ManualClock, optional: TypeInformation | None
) -> None:
    store = reopen()
    store.bind("a")
    store.state(living(MapStateDescriptor("entries", None, optional))).put("x", None)
    store.state(living(ListStateDescriptor("elements", optional))).add(None)
    again = reopen(checkpoint(store))
    again.bind("a")
    entries = again.state(living(MapStateDescriptor("entries", None, optional)))
    elements = again.state(living(ListStateDescriptor("elements", optional)))
    assert ("x" in entries, entries.get("x"), elements.get()) == (True, None, [None])
    clock.advance(1_000)
    assert ("x" in entries, elements.get()) == (False, [])
    with pytest.raises(RecordError, match="got NoneType None; expected long"):
        again.state(living(MapStateDescriptor("numbers", None, Types.LONG()))).put("x", None)


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


def test_lives_go_on_at_another_parallelism(reopen: Open, clock: ManualClock, kind: Any) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe()))
    for number in range(6):
        if number == 3:
            clock.advance(500)
        store.bind(number)
        write(state)
    handle = checkpoint(store)
    clock.advance(500)
    seen = {}
    for part in (KeyGroupRange(0, 3), KeyGroupRange(3, 5), KeyGroupRange(5, 8)):
        piece = reopen(handle, key_groups=part)
        state = piece.state(living(describe()))
        for number in list(piece.keys("seen")):
            piece.bind(number)
            seen[number] = read(state)
    assert seen == {0: None, 1: None, 2: None, 3: 7, 4: 7, 5: 7}


def test_a_life_is_refused_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"cannot live for .*; expected a Time or Duration"):
        StateTtlConfig.new_builder(Time.milliseconds(0)).build()
    with pytest.raises(ConfigError, match=r"cannot live for 5; expected a Time or Duration"):
        StateTtlConfig.new_builder(5).build()  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cleanup_size is 0; expected 1 or more"):
        StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(0, False)
    with pytest.raises(ConfigError, match="state 'seen': got 5 as its time to live; expected a StateTtl"):
        ValueStateDescriptor("seen").enable_time_to_live(5)  # type: ignore[arg-type]


def test_a_disabled_configuration_is_as_good_as_none() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    config = builder.set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    descriptor = ValueStateDescriptor("seen")
    descriptor.enable_time_to_live(config)
    assert not config.is_enabled()
    assert descriptor == ValueStateDescriptor("seen")
