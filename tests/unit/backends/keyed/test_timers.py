from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.timers import StoredTimers
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Address, Timer
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import RecordError
from tidegate.ids import CheckpointId

Open = Callable[..., KeyedStore]


def test_timers_fire_by_time_up_to_the_moment(open_store: Open) -> None:
    timers = open_store().event_timers
    for time in (5, -2, 9, 5):
        timers.register(Timer(time, "a"))
    assert timers.next_time() == -2
    assert [timer.time for timer in timers.due(5)] == [-2, 5]
    assert timers.next_time() == 9


def test_a_timer_registered_while_others_fire_is_fired_too(open_store: Open) -> None:
    timers = open_store().event_timers
    timers.register(Timer(1, "a"))
    fired = []
    for timer in timers.due(10):
        fired.append(timer.time)
        if timer.time < 4:
            timers.register(Timer(timer.time + 1, "a"))
        timers.register(Timer(11, "a"))
    assert fired == [1, 2, 3, 4]
    assert timers.next_time() == 11


def test_a_timer_deleted_while_others_fire_does_not(open_store: Open) -> None:
    timers = open_store().event_timers
    timers.register(Timer(1, "a"))
    timers.register(Timer(2, "a"))
    for timer in timers.due(10):
        timers.delete(Timer(timer.time + 1, "a"))
        assert timer.time == 1
    assert timers.next_time() is None


def test_services_and_namespaces_are_apart_and_survive(open_store: Open) -> None:
    store = open_store()
    store.event_timers.register(Timer(1, ("a", 1), b"w1"))
    store.event_timers.register(Timer(1, ("a", 1), b"w\0"))
    store.processing_timers.register(Timer(2, 7))
    again = open_store(store.snapshot(CheckpointId(1), None).finish())
    assert set(again.event_timers.due(9)) == {Timer(1, ("a", 1), b"w1"), Timer(1, ("a", 1), b"w\0")}
    assert list(again.processing_timers.due(9)) == [Timer(2, 7)]


def test_a_timer_that_came_and_went_within_an_epoch_is_not_logged(
    open_store: Open, storage: MemoryStorage
) -> None:
    store = open_store()
    store.event_timers.register(Timer(1, "kept"))
    store.event_timers.register(Timer(1, "gone"))
    store.event_timers.delete(Timer(1, "gone"))
    handle = store.snapshot(CheckpointId(1), None).finish()
    store.event_timers.delete(Timer(1, "kept"))
    store.event_timers.register(Timer(1, "kept"))
    assert store.snapshot(CheckpointId(2), CheckpointId(1)).finish() == handle
    [chunk] = handle.segments
    assert len(read_segment(StorageFiles(storage.blobs, "run"), chunk).entries) == 1


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, 5.0], ids=["late", "early", "fraction"])
def test_a_time_that_is_no_integer_of_64_bits_is_refused(open_store: Open, time: int) -> None:
    timers = open_store().event_timers
    timers.register(Timer(5, "b"))
    with pytest.raises(RecordError, match=rf"timer of key 'a': got time {time}; expected 64 bits"):
        timers.register(Timer(time, "a"))


def test_timers_of_one_time_fire_in_the_same_order_after_a_restore(open_store: Open) -> None:
    store = open_store()
    for key in ("c", "a", 7, "b"):
        store.event_timers.register(Timer(5, key))
    again = open_store(store.snapshot(CheckpointId(1), None).finish())
    assert list(again.event_timers.due(5)) == list(store.event_timers.due(5))


def test_a_timer_registered_for_an_earlier_time_fires_before_the_rest(open_store: Open) -> None:
    timers = open_store().event_timers
    for key in "abc":
        timers.register(Timer(5, key))
    fired = []
    for timer in timers.due(9):
        fired.append(timer.time)
        if len(fired) == 1:
            timers.register(Timer(1, "a"))
        timers.next_time()
    assert fired == [5, 1, 5, 5]
    assert timers.next_time() is None


class Stored:
    """What a store holds of timers; `read` counts those that were looked at."""

    def __init__(self) -> None:
        self.entries: dict[Address, bytes | None] = {}
        self.read = 0

    def opened(self, *, at_once: bool = False) -> StoredTimers:
        return StoredTimers(
            1,
            lambda keys: [key[-1] % 3 for key in keys],
            range(3),
            self.scan,
            at_once=at_once,
            write=self.entries.update,
        )

    def scan(self, first: Address, last: Address) -> Iterator[tuple[Address, bytes]]:
        for at in sorted(
            at for at, value in self.entries.items() if value is not None and first <= at < last
        ):
            self.read += 1
            yield at, b""

    def flush(self, timers: StoredTimers) -> None:
        self.entries.update(timers.take_changes())


MANY = st.sets(st.builds(Timer, st.integers(0, 60), st.integers(0, 40)), max_size=200)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["register", "delete"]), st.builds(Timer, st.integers(0, 70), st.integers(0, 40))
        ),
        st.tuples(st.just("due"), st.integers(0, 70)),
        st.tuples(st.sampled_from(["next", "flush", "restore"]), st.none()),
    ),
    max_size=40,
)


@given(stored=MANY, steps=STEPS, at_once=st.booleans())
def test_timers_that_are_read_late_are_those_that_are_read_at_once(
    stored: set[Timer], steps: list[tuple[str, Any]], at_once: bool
) -> None:
    store, model = Stored(), set(stored)
    timers = store.opened()
    for timer in stored:
        timers.register(timer)
    for what, with_what in [("restore", None), *steps, ("restore", None), ("due", 100)]:
        match what:
            case "register":
                timers.register(with_what)
                model.add(with_what)
            case "delete":
                timers.delete(with_what)
                model.discard(with_what)
            case "due":
                fired = list(timers.due(with_what))
                due = {timer for timer in model if timer.time <= with_what}
                assert [timer.time for timer in fired] == sorted(timer.time for timer in due)
                assert set(fired) == due
                model -= due
            case "next":
                assert timers.next_time() == min((timer.time for timer in model), default=None)
            case "flush":
                store.flush(timers)
            case "restore":
                store.flush(timers)
                timers = store.opened(at_once=at_once)
    assert model == set()


def test_what_is_due_later_is_not_read() -> None:
    store = Stored()
    timers = store.opened()
    for time in range(3_000):
        timers.register(Timer(time, time))
    store.flush(timers)
    again = store.opened()

    assert [timer.time for timer in again.due(5)] == list(range(6))
    assert store.read == 9, "those that are due, and of each key group one more to know when to go on"
    assert again.next_time() == 6
    assert [timer.time for timer in again.due(2_999)] == list(range(6, 3_000))
    assert again.next_time() is None


def test_a_restored_timer_that_is_deleted_before_it_was_read_is_gone(open_store: Open) -> None:
    store = open_store(backend=RocksDBBackend())
    for key in ("gone", "kept"):
        store.event_timers.register(Timer(9, key))
    again = open_store(store.snapshot(CheckpointId(1), None).finish(), backend=RocksDBBackend())

    again.event_timers.delete(Timer(9, "gone"))
    again.event_timers.register(Timer(9, "kept"))

    last = open_store(again.snapshot(CheckpointId(2), None).finish(), backend=RocksDBBackend())
    assert list(last.event_timers.due(9)) == list(again.event_timers.due(9)) == [Timer(9, "kept")]


@given(
    timers=st.lists(st.builds(Timer, st.integers(0, 9), st.integers(0, 2_000)), unique=True, max_size=60),
    limit=st.integers(1, 9),
    restored=st.booleans(),
)
def test_timers_taken_in_pieces_are_those_taken_at_once(
    timers: list[Timer], limit: int, restored: bool
) -> None:
    def opened() -> StoredTimers:
        store = Stored()
        queue = store.opened()
        for timer in timers:
            queue.register(timer)
        store.flush(queue)
        return store.opened() if restored else queue

    whole, pieces = opened(), opened()
    told: list[Timer] = []
    fired: list[Timer] = []
    while piece := list(pieces.due(6, limit, told.extend)):
        following = pieces.next_time()
        assert len(piece) == limit or following is None or following > 6
        fired += piece
        assert set(fired) <= set(told), "what fires was announced"

    assert fired == list(whole.due(6))
    assert pieces.next_time() == whole.next_time()


def test_a_piece_that_is_given_up_leaves_the_rest_where_it_was(open_store: Open) -> None:
    timers = open_store().event_timers
    for time in range(5):
        timers.register(Timer(time, "a"))
    for timer in timers.due(9):
        if timer.time == 1:
            break
    timers.register(Timer(0, "b"))
    assert timers.next_time() == 0
    assert [timer.time for timer in timers.due(9)] == [0, 2, 3, 4]


def test_the_first_of_many_timers_of_one_time_does_not_wait_for_an_order_of_all(open_store: Open) -> None:
    store = Stored()
    timers = store.opened()
    for key in range(5_000):
        timers.register(Timer(1, key))
    store.flush(timers)
    again = store.opened()

    first = list(again.due(1, 10))

    assert len(first) == 10
    assert store.read < 4_000
    assert {*first, *again.due(1)} == {Timer(1, key) for key in range(5_000)}
