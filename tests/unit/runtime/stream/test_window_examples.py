"""What windows keep, drop, merge and when they are gone, by the numbers of the examples, on every executor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.runtime.stream.written import listed, ran, stream
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed.address import ROWS, split
from tidegate.backends.keyed.restore import restore
from tidegate.backends.keyed.row import unpack_slots
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import StorageFiles, open_storage
from tidegate.common import Duration, WatermarkStrategy
from tidegate.datastream import (
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeEvictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from tidegate.ids import OperatorUid
from tidegate.runtime.checkpoint.manifest import decode, metadata_name
from tidegate.runtime.checkpoint.record import Record
from tidegate.runtime.options import default_root
from tidegate.serde import codec_for

Env = StreamExecutionEnvironment

hours, seconds, millis = Duration.of_hours, Duration.of_seconds, Duration.of_millis


def bounds(key: Any, window: Any, values: list[Any]) -> list[tuple[int, int]]:
    return [(window.start, window.end)]


class Gone(ProcessWindowFunction):
    """Says which windows of the key ended by now, and at which watermark."""

    ends = ValueStateDescriptor("ends", default=())

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield context.window().end, list(elements), context.global_state().get_state(self.ends).value()

    def clear(self, context: Any) -> None:
        ends = context.global_state().get_state(self.ends)
        ends.update((*ends.value(), (context.window().end, context.current_watermark())))


@pytest.mark.spec("001/EX-02")
@pytest.mark.parametrize(("lateness", "gone"), [(0, 4_999), (1_000, 5_999)], ids=["none", "a second"])
def test_a_window_that_ends_at_5000_is_gone_after_its_end_and_the_lateness(
    anywhere: Env, lateness: int, gone: int
) -> None:
    late = OutputTag("late")
    items = stream(anywhere, ("a", 1_000), gone - 1, ("b", 2_000), gone, ("c", 3_000), ("d", 20_000), 30_000)
    windows = items.window(TumblingEventTimeWindows.of(seconds(5))).allowed_lateness(lateness)
    results = windows.side_output_late_data(late).process(Gone())
    found = ran(results.union(results.get_side_output(late)))

    assert [value for value in found if isinstance(value, str)] == ["c"]
    fired = [value for value in found if not isinstance(value, str)]
    assert fired[-2] == (5_000, ["a", "b"], ())
    assert fired[-1] == (25_000, ["d"], ((5_000, gone),))


class OnFourth(Trigger):
    """Answers something for the second and the fourth record, which it counts in its state."""

    def __init__(self, second: TriggerResult, fourth: TriggerResult) -> None:
        self.answers = {2: second, 4: fourth}

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        count = ctx.get_partitioned_state(ValueStateDescriptor("seen", default=0))
        count.update(count.value() + 1)
        return self.answers.get(count.value(), TriggerResult.CONTINUE)


@pytest.mark.spec("002/AX-15")
@pytest.mark.spec("004/WIN-013", "004/WIN-014", "004/WIN-015", "004/WIN-016")
def test_fire_keeps_purge_drops_and_the_state_of_a_trigger_survives(anywhere: Env) -> None:
    def fired(second: TriggerResult, fourth: TriggerResult) -> list[Any]:
        items = stream(anywhere, *((n, n) for n in (1, 2, 3, 4)))
        return ran(items.window(GlobalWindows.create()).trigger(OnFourth(second, fourth)).apply(listed))

    assert fired(TriggerResult.FIRE, TriggerResult.FIRE) == [[1, 2], [1, 2, 3, 4]]
    assert fired(TriggerResult.FIRE_AND_PURGE, TriggerResult.FIRE) == [[1, 2], [3, 4]]
    assert fired(TriggerResult.PURGE, TriggerResult.FIRE) == [[3, 4]]


def evicted(env: Env, evictor: Any, *items: tuple[Any, int]) -> list[Any]:
    """What a window function sees of records that are evaluated at the last of them."""
    windows = stream(env, *items).window(GlobalWindows.create()).trigger(CountTrigger.of(len(items)))
    return ran(windows.evictor(evictor).apply(listed))


@pytest.mark.spec("002/AX-22")
@pytest.mark.spec("004/WIN-018")
def test_a_count_evictor_keeps_the_last_three(anywhere: Env) -> None:
    assert evicted(anywhere, CountEvictor.of(3), *((n, n) for n in (1, 2, 3, 4, 5))) == [[3, 4, 5]]


@pytest.mark.spec("002/AX-23")
def test_a_delta_evictor_keeps_what_is_nearer_to_the_last_than_its_threshold(anywhere: Env) -> None:
    evictor = DeltaEvictor.of(5, lambda value, last: abs(value - last))

    assert evicted(anywhere, evictor, (1, 0), (4, 1), (8, 2), (10, 3)) == [[8, 10]]
    assert evicted(anywhere, evictor, (5, 0), (10, 1)) == [[10]]


@pytest.mark.spec("002/AX-24")
def test_a_time_evictor_keeps_what_is_no_older_than_its_interval(anywhere: Env) -> None:
    times = (100, 500, 1_000, 1_500)

    assert evicted(anywhere, TimeEvictor.of(millis(1_000)), *((at, at) for at in times)) == [
        [500, 1_000, 1_500]
    ]


def utc(day: int, hour: int, minute: int = 0, month: int = 1, year: int = 2020) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.spec("002/AX-25")
def test_daily_windows_moved_by_eight_hours_are_days_of_china(anywhere: Env) -> None:
    midnight = utc(1, 16)
    days = TumblingEventTimeWindows.of(Duration.of_days(1), hours(-8))
    items = stream(anywhere, ("last", midnight - 1), ("first", midnight))

    assert ran(items.window(days).apply(bounds)) == [
        (utc(31, 16, month=12, year=2019), midnight),
        (midnight, utc(2, 16)),
    ]


@pytest.mark.spec("002/AX-26")
@pytest.mark.spec("004/WIN-005", "004/WIN-009")
def test_a_record_is_copied_into_size_by_slide_windows(anywhere: Env) -> None:
    tens = SlidingEventTimeWindows.of(seconds(10), seconds(5))
    assert ran(stream(anywhere, ("a", 12_000)).window(tens).apply(bounds)) == [
        (5_000, 15_000),
        (10_000, 20_000),
    ]

    half_days = SlidingEventTimeWindows.of(hours(12), hours(1), hours(-8))
    found = ran(stream(anywhere, ("a", utc(1, 15, 30))).window(half_days).apply(bounds))
    assert len(found) == 12
    assert (found[0], found[-1]) == ((utc(1, 4), utc(1, 16)), (utc(1, 15), utc(2, 3)))


@pytest.mark.spec("004/AX-011")
@pytest.mark.spec("004/WIN-011", "004/WIN-021", "004/WIN-022")
def test_a_window_with_a_sum_stores_one_value_and_with_an_evictor_all_elements(
    anywhere: Env, tmp_path: Path
) -> None:
    def stored(evictor: Any) -> Any:
        name = f"sums-{evictor is not None}"
        windows = stream(anywhere, *((n, n) for n in range(1, 6))).window(GlobalWindows.create())
        windows = windows.trigger(OnFourth(TriggerResult.CONTINUE, TriggerResult.CONTINUE))
        sums = (windows.evictor(evictor) if evictor is not None else windows).reduce(lambda a, b: a + b)
        sums.uid("sums").print()
        anywhere.execute(name)
        (content,) = contents(tmp_path, name, "sums")
        return content

    assert stored(None) == 15
    assert stored(CountEvictor.of(9)) == [(n, n) for n in range(1, 6)]


def contents(directory: Path, pipeline: str, uid: str) -> Iterator[Any]:
    """What the newest checkpoint of a pipeline holds of the records of windows of an operator."""
    storage = open_storage(str(default_root(os.environ)))
    decision = storage.decisions.read(f"{pipeline}/latest") if storage.decisions else None
    assert decision is not None
    newest = msgspec.msgpack.decode(decision.data, type=Record).retained[-1]
    name = metadata_name(newest.run, newest.checkpoint)
    with storage.blobs.open(name) as file:
        manifest = decode(file.read(), name)
    state = manifest.operator(OperatorUid(uid))
    assert state is not None
    for place, handle in enumerate(state.keyed):
        where = directory / f"{pipeline}-{place}"
        where.mkdir()
        context = BackendContext(where, StorageFiles(storage.blobs, "read", 0), {})
        opened = restore(HeapBackend(), handle.key_groups, [handle], context)
        slots = {entry.slot: entry for entry in opened.table.entries if entry.name.startswith("window:")}
        for at, data in opened.materialisation.scan(b"", b"\xff" * 9):
            if split(at).state == ROWS and split(at).namespace:
                (entry,) = slots.values()
                held = unpack_slots(data)[entry.slot] or b""
                value = codec_for(None).decode
                yield (
                    list(map(value, msgspec.msgpack.decode(held)[1])) if entry.kind == "list" else value(held)
                )
        opened.materialisation.close()


class Paused(SourceFunction):
    """Emits items; before a `None` waits for a checkpoint, once, and then lets the job fail."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.position, self.restored = items, 0, False

    def open(self, runtime_context: Any) -> None:
        self.snapshots, self.cancelled = threading.Semaphore(0), False

    def cancel(self) -> None:
        self.cancelled = True
        self.snapshots.release(3)

    def run(self, ctx: Any) -> None:
        while self.position < len(self.items) and not self.cancelled:
            item = self.items[self.position]
            if item is None and not self.restored:
                # The third barrier comes only after the second checkpoint was decided.
                for _ in range(3):
                    self.snapshots.acquire()
                if self.cancelled:
                    return
            with ctx.get_checkpoint_lock():
                if item is not None or not self.restored:
                    ctx.collect(item)
                self.position += item is not None or self.restored

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Any:
        self.snapshots.release()
        return [self.position]

    def restore_state(self, state: list[int]) -> None:
        (self.position,), self.restored = state, True


class Failing(MapFunction):
    def map(self, value: Any) -> Any:
        if value is None:
            raise ValueError("on purpose")
        return value


@pytest.mark.spec("000/EX-21")
@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize("parallelism", [2, 3])
def test_merged_sessions_keep_the_place_of_the_first_and_find_it_again_after_a_failure(
    target: str, parallelism: int
) -> None:
    env = Env.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": parallelism,
            "execution.checkpointing.interval": 20,
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    sessions = [("A", 0), ("B", 12), ("C", 24)]
    items = env.add_source(Paused([*sessions, ("ab", 9), ("bc", 20), None, ("after", 30)])).map(Failing())
    times = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda item, _: item[1])
    stamped = items.set_parallelism(1).assign_timestamps_and_watermarks(times).set_parallelism(1)
    windows = stamped.key_by(lambda item: "k").window(EventTimeSessionWindows.with_gap(millis(10)))

    def described(key: str, window: Any, items: list[Any]) -> list[Any]:
        return [(window.start, window.end, [name for name, _ in items])]

    # Contents of A come first, those of B and C were added to them.
    assert ran(windows.apply(described)) == [(0, 40, ["A", "B", "ab", "C", "bc", "after"])]
