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


def test_a_time_beyond_64_bits_is_refused(open_store: Open) -> None:
    with pytest.raises(RecordError, match="timer of key 'a': got time 9223372036854775808; expected 64 bits"):
        open_store().event_timers.register(Timer(2**63, "a"))
