"""Timers fire in pieces: barriers pass between two of them, and what had not fired then fires after a restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tidegate.common import Time, Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext, ValueStateDescriptor
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.elements import Batch, Watermark
from tidegate.errors import RecordError
from tidegate.runtime.task.downstream import DownstreamTask
from tidegate.testing.harness import Harness, HarnessSnapshot

AGAIN_MS = 7
END = 60


class Rings(KeyedProcessFunction):
    """A timer for each record, and another one behind each that fires before the end."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[1])
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.fired.update((self.fired.value() or 0) + 1)
        if timestamp + AGAIN_MS < END:
            ctx.timer_service().register_event_time_timer(timestamp + AGAIN_MS)
        yield ctx.get_current_key(), timestamp, self.fired.value()


def ringing(stream: DataStream) -> DataStream:
    return stream.key_by(lambda value: value[0]).process(Rings()).uid("rings")


def windowed(stream: DataStream) -> DataStream:
    keyed = stream.key_by(lambda value: value[0])
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("windows")


class Interrupted(Harness):
    """A harness that can take a checkpoint in the middle of what a watermark makes due."""

    @property
    def tasks(self) -> list[DownstreamTask]:
        return list(self._runners.values())

    def fire(self, timestamp: int, steps: int) -> None:
        """Let event time move on, and each subtask do so many steps."""
        for gates in self._sources:
            for gate in gates.values():
                gate.broadcast(Watermark(timestamp))
        for task in self.tasks:
            for _ in range(steps):
                task.step()


def timers_of(records: set[tuple[int, int]], until: int) -> set[tuple[int, int]]:
    """What fires up to a time: of each record, and of each that fired another one."""
    due, found = [record for record in records if record[1] <= until], set[tuple[int, int]]()
    while due:
        key, time = due.pop()
        if (key, time) not in found:
            found.add((key, time))
            if time + AGAIN_MS < END and time + AGAIN_MS <= until:
                due.append((key, time + AGAIN_MS))
    return found


RECORDS = st.sets(st.tuples(st.integers(0, 30), st.integers(0, END)), min_size=1, max_size=150)


@settings(deadline=None)
@given(
    records=RECORDS,
    until=st.integers(0, END),
    stops=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), min_size=1, max_size=3),
    backend=st.sampled_from(["heap", "rocksdb"]),
)
def test_what_fires_in_pieces_fires_once_whatever_is_restored_between_them(
    records: set[tuple[int, int]], until: int, stops: list[tuple[int, int]], backend: str
) -> None:
    fired: list[Any] = []
    taken: HarnessSnapshot | None = None
    for place, (steps, parallelism) in enumerate(stops):
        with Interrupted(
            ringing, parallelism=parallelism, max_parallelism=8, backend=backend, restored=taken
        ) as now:
            if not place:
                for record in sorted(records):
                    now.push(record)
                now.fire(until, steps)
            else:
                for task in now.tasks:
                    for _ in range(steps):
                        task.step()
            fired += now.take()
            taken = now.snapshot()
    with Interrupted(ringing, parallelism=2, max_parallelism=8, backend=backend, restored=taken) as last:
        last.advance(0)
        fired += last.take()
        expected = timers_of(records, until)
        assert Counter((key, time) for key, time, _ in fired) == Counter(expected)
        last.watermark(2 * END)
        fired += last.take()
    counts = Counter(key for key, _ in timers_of(records, 2 * END))
    assert Counter((key, time) for key, time, _ in fired) == Counter(timers_of(records, 2 * END))
    by_key: dict[int, list[int]] = {}
    for key, _, count in fired:
        by_key.setdefault(key, []).append(count)
    assert by_key == {key: list(range(1, count + 1)) for key, count in counts.items()}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_windows_that_had_not_fired_at_a_barrier_fire_after_a_restore(backend: str) -> None:
    with Interrupted(windowed, backend=backend) as before:
        for key in range(200):
            before.push((key, key), timestamp=key % 20)
        before.fire(14, steps=3)
        first = before.take()
        taken = before.snapshot()
    with Interrupted(windowed, parallelism=2, backend=backend, restored=taken) as after:
        after.advance(0)
        second = after.take()
        after.watermark(100)
        third = after.take()

    assert first
    assert second
    assert sorted([*first, *second]) == [(key, key) for key in range(200) if key % 20 < 15]
    assert sorted(third) == [(key, key) for key in range(200) if key % 20 >= 15]


def test_records_wait_for_what_is_due_and_barriers_do_not() -> None:
    with Interrupted(ringing) as one:
        for key in range(100):
            one.push((key, 5))
        (task,) = one.tasks
        one.fire(5, steps=2)
        (channel,) = task._queues
        task.deliver(channel, Batch([(1, 70)], keys=[1]))
        assert task.chain.time.due
        assert 0 < len(one.take()) < 100
        task.step()
        assert task._queues[channel], "the record still waits"


def test_the_cache_keeps_its_bound_while_timers_fire() -> None:
    with Interrupted(ringing, backend="rocksdb") as one:
        for key in range(1_500):
            one.push((key, 5))
        (task,) = one.tasks
        (store,) = task.chain.operators.stores.values()
        one.fire(5, steps=1)
        most = 0
        while task.chain.time.due:
            task.step()
            most = max(most, len(store._rows))
        assert len(one.take()) == 1_500
        assert most <= 100 + 1_024


def test_a_receiver_without_credit_holds_timers_up() -> None:
    with Interrupted(ringing) as one:
        for key in range(100):
            one.push((key, 5))
        (task,) = one.tasks
        one.fire(5, steps=2)
        (gate,) = task._gates.values()
        (sent,) = gate._channels.values()
        credit = sent.credit
        credit.used += credit.limit
        before = len(one.take())
        assert not task.step()
        assert task.wait_s() is None
        assert one.take() == []
        credit.used = 0
        one.advance(0)
        assert before + len(one.take()) == 100


class Notes(KeyedProcessFunction):
    """Puts what cannot be encoded into the notes of a key that it read."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.notes = runtime_context.get_state(ValueStateDescriptor("notes", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.notes.update([value])
        ctx.timer_service().register_event_time_timer(1)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.notes.value().append(lambda: None)
        yield ctx.get_current_key()


def test_a_row_that_cannot_leave_the_cache_between_two_pieces_fails_the_task() -> None:
    with Interrupted(lambda stream: stream.key_by(lambda value: value).process(Notes())) as now:
        for number in range(2 * now.cache_entries):
            now.push(number)
        with pytest.raises(RecordError, match="while storing state 'notes' of key"):
            now.fire(1, steps=50)
