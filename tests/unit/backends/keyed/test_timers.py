from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.spi import Timer
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
