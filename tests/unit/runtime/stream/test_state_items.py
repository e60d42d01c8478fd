"""What state is for and how it is used, one feature at a time, on every executor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.common import Duration, Types, WatermarkStrategy
from tidegate.datastream import (
    CheckpointedFunction,
    FilterFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    state,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.state_reader import StateReader
from tidegate.testing.harness import Harness

Event = tuple[str, int]
EVENTS: list[Event] = [("a", 1), ("b", 10), ("a", 2), ("c", 5), ("b", 20), ("a", 3)]


def first(event: Event) -> str:
    return event[0]


def given(env: StreamExecutionEnvironment) -> Any:
    """All events by one subtask, so that those of a key come in their order."""
    return env.from_collection(EVENTS).set_parallelism(1)


def newest(root: Path) -> Path:
    return max(root.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))


class Sum(MapFunction):
    """What all values of the key come to so far."""

    total = state.Value(int, default=0)

    def map(self, value: Event) -> Event:
        self.total.update(self.total.value() + value[1])
        return value[0], self.total.value()


@pytest.mark.spec("000/STATE-01", "003/ST-01", "003/ST-03")
def test_a_step_without_state_sees_one_record_and_one_with_state_those_before(
    anywhere: StreamExecutionEnvironment,
) -> None:
    doubled = given(anywhere).map(lambda event: (event[0], 2 * event[1])).execute_and_collect()
    assert sorted(doubled) == sorted((name, 2 * value) for name, value in EVENTS)

    summed = given(anywhere).key_by(first).map(Sum()).execute_and_collect()
    assert sorted(summed) == [("a", 1), ("a", 3), ("a", 6), ("b", 10), ("b", 30), ("c", 5)]


@pytest.mark.spec("000/STATE-02", "000/STATE-03", "003/ST-06", "003/ST-13")
@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_state_is_kept_by_key_where_the_setting_says_and_is_in_the_checkpoint(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, backend: str
) -> None:
    anywhere.configure({"state.backend.type": backend, "state.checkpoints.dir": str(tmp_path)})
    given(anywhere).key_by(first).map(Sum()).uid("sums").print()
    anywhere.execute("sums")

    with StateReader(newest(tmp_path)) as reader:
        assert reader.operators() == {"sums": ("total",)}
        table = reader.table("sums", "total")
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == {
        "a": 6,
        "b": 30,
        "c": 5,
    }
    assert str(table.schema.field("value").type) == "int64"
    (sums,) = (each for each in open_snapshot(newest(tmp_path)).manifest.operators if each.uid == "sums")
    assert len(sums.keyed) == anywhere.get_parallelism()
    for group in table["key_group"].to_pylist():
        assert sum(group in handle.key_groups for handle in sums.keyed) == 1


class Keys(KeyedProcessFunction):
    """Tells the key at hand, in records and in timers."""

    mine = state.Value(str)

    def process_element(self, value: Event, ctx: Any) -> Iterator[tuple[str, Any]]:
        yield value[0], ctx.get_current_key()
        assert self.mine.value() in (None, value[0])
        self.mine.update(value[0])
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, Any]]:
        yield self.mine.value(), ctx.get_current_key()


@pytest.mark.spec("000/STATE-12", "000/STATE-17")
def test_the_current_key_is_known_and_only_its_state_is_there(anywhere: StreamExecutionEnvironment) -> None:
    found = list(given(anywhere).key_by(first).process(Keys()).execute_and_collect())
    assert sorted(found) == sorted((name, name) for name, _ in [*EVENTS, ("a", 0), ("b", 0), ("c", 0)])


@pytest.mark.spec("000/STATE-12", "003/ST-09")
def test_keyed_state_needs_a_key_and_a_function_that_is_opened(anywhere: StreamExecutionEnvironment) -> None:
    class Asks(FilterFunction):
        def open(self, runtime_context: Any) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

        def filter(self, value: Event) -> bool:
            self.last.update(value[1])
            return True

    assert sorted(given(anywhere).key_by(first).filter(Asks()).execute_and_collect()) == sorted(EVENTS)
    given(anywhere).filter(Asks()).print()
    with pytest.raises(
        ConfigError, match=r"asks for state 'last' but its input has no key; use key_by\(...\)"
    ):
        anywhere.execute("no key")


class Steps(KeyedProcessFunction):
    """Declared as an attribute, described in `open`, read and written with each record."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Event, ctx: Any) -> Iterator[tuple[str, int | None]]:
        before = self.total.value()
        yield value[0], before
        self.total.update((before or 0) + value[1])


@pytest.mark.spec("003/ST-10", "003/ST-11")
def test_state_is_empty_at_first_and_what_it_was_after_a_restart(
    anywhere: StreamExecutionEnvironment,
) -> None:
    found = given(anywhere).key_by(first).process(Steps()).execute_and_collect()
    assert sorted(found, key=str) == [("a", 1), ("a", 3), ("a", None), ("b", 10), ("b", None), ("c", None)]

    def build(stream: Any) -> Any:
        return stream.key_by(first).process(Steps())

    with Harness(build) as before:
        for event in EVENTS[:4]:
            before.push(event)
        taken = before.snapshot()
    with Harness(build, restored=taken) as after:
        for event in EVENTS[4:]:
            after.push(event)
        assert after.take() == [("b", 10), ("a", 3)]


class Native(KeyedProcessFunction):
    """Counts in a dictionary of its own, and in state."""

    counted = state.Map(str, int)

    def open(self, runtime_context: Any) -> None:
        self.own: dict[str, int] = {}

    def process_element(self, value: Event, ctx: Any) -> Iterator[tuple[str, int, int]]:
        self.own[value[0]] = self.own.get(value[0], 0) + 1
        self.counted.put(value[0], (self.counted.get(value[0]) or 0) + 1)
        yield value[0], self.own[value[0]], self.counted.get(value[0]) or 0


@pytest.mark.spec("003/ST-04")
def test_a_container_of_the_language_forgets_what_state_keeps() -> None:
    def build(stream: Any) -> Any:
        return stream.key_by(first).process(Native())

    with Harness(build) as before:
        before.push(("a", 1))
        before.push(("a", 2))
        assert before.take()[-1] == ("a", 2, 2)
        taken = before.snapshot()
    with Harness(build, restored=taken) as after:
        after.push(("a", 3))
        assert after.take() == [("a", 1, 3)]


class Both(KeyedProcessFunction, CheckpointedFunction):
    """State of its key and state of its subtask."""

    of_key = state.Value(int, default=0)

    def initialize_state(self, context: Any) -> None:
        described = ListStateDescriptor("of subtask", Types.LONG())
        self.of_subtask = context.get_operator_state_store().get_list_state(described)

    def process_element(self, value: Event, ctx: Any) -> None:
        self.of_key.update(self.of_key.value() + 1)
        self.of_subtask.add(value[1])

    def snapshot_state(self, context: Any) -> None: ...


@pytest.mark.spec("003/ST-05", "000/STATE-03")
def test_a_function_keeps_state_of_its_keys_and_of_its_subtask(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    anywhere.configure({"state.checkpoints.dir": str(tmp_path)})
    given(anywhere).key_by(first).process(Both()).uid("both").print()
    anywhere.execute("both")

    with StateReader(newest(tmp_path)) as reader:
        keyed, unkeyed = reader.table("both", "of_key"), reader.unkeyed_table("both", "of subtask")
    assert sorted(zip(keyed["key"].to_pylist(), keyed["value"].to_pylist(), strict=True)) == [
        ("a", 3),
        ("b", 2),
        ("c", 1),
    ]
    assert sorted(unkeyed["value"].to_pylist()) == sorted(value for _, value in EVENTS)


class Turn(KeyedProcessFunction):
    """Reads, and writes what it read and one more."""

    count = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        before = self.count.value()
        self.count.update(before + 1)
        assert self.count.value() == before + 1
        yield before


@pytest.mark.spec("003/ST-12")
def test_nobody_else_changes_the_state_of_a_key_meanwhile(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_collection(range(3_000), Types.LONG())
    assert sorted(numbers.key_by(lambda _: 0).process(Turn()).execute_and_collect()) == list(range(3_000))


class Fresh(FilterFunction):
    """Lets each value of a key pass once: all of them are in state."""

    seen = state.Map(int, bool)

    def filter(self, value: Event) -> bool:
        fresh = not self.seen.contains(value[1])
        self.seen.put(value[1], True)
        return fresh


class Learns(MapFunction):
    """A model of one weight per key, trained by each record after it was asked: the mean."""

    model = state.Value(Types.TUPLE([Types.LONG(), Types.LONG()]), default=(0, 0))

    def map(self, value: Event) -> tuple[str, float | None]:
        total, count = self.model.value()
        self.model.update((total + value[1], count + 1))
        return value[0], total / count if count else None


class History(MapFunction):
    """All that the key had before."""

    past = state.List(int)

    def map(self, value: Event) -> tuple[str, list[int]]:
        self.past.add(value[1])
        return value[0], self.past.get()


class Content(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Iterator[tuple[str, int, list[int]]]:
        yield key, context.window().start, [value for _, value in elements]


@pytest.mark.spec("003/ST-15", "003/ST-07")
def test_state_removes_duplicates_holds_windows_models_and_history(
    anywhere: StreamExecutionEnvironment,
) -> None:
    twice = anywhere.from_collection([*EVENTS, *EVENTS]).set_parallelism(1).key_by(first)
    assert sorted(twice.filter(Fresh()).execute_and_collect()) == sorted(EVENTS)
    keyed = given(anywhere).key_by(first)
    models = sorted(keyed.map(Learns()).execute_and_collect(), key=str)
    assert models == [("a", 1.0), ("a", 1.5), ("a", None), ("b", 10.0), ("b", None), ("c", None)]
    assert ("a", [1, 2, 3]) in list(keyed.map(History()).execute_and_collect())
    by_value = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    timed = given(anywhere).assign_timestamps_and_watermarks(
        by_value.with_timestamp_assigner(lambda event, _: event[1])
    )
    windows = (
        timed.set_parallelism(1).key_by(first).window(TumblingEventTimeWindows.of(Duration.of_millis(3)))
    )
    assert sorted(windows.process(Content()).execute_and_collect()) == [
        ("a", 0, [1, 2]),
        ("a", 3, [3]),
        ("b", 9, [10]),
        ("b", 18, [20]),
        ("c", 3, [5]),
    ]


@pytest.mark.spec("000/STATE-08")
def test_a_batch_job_has_no_checkpoint_to_go_back_to_and_reads_everything_again(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"

    def note(event: Event) -> Event:
        with seen.open("a") as file:
            file.write(f"{event[1]}\n")
        if len(seen.read_text().split()) == len(EVENTS):  # once: the second time there are more
            raise ValueError("trouble")
        return event

    anywhere.configure(
        {
            "execution.runtime-mode": "BATCH",
            "execution.checkpointing.interval": "1 ms",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
            "state.checkpoints.dir": str(tmp_path / "state"),
        }
    )
    given(anywhere).map(note).set_parallelism(1).key_by(first).map(Sum()).print()
    result = anywhere.execute("batch")

    assert (result.state, result.restarts) == ("finished", 1)
    assert seen.read_text().split() == 2 * [str(value) for _, value in EVENTS]
    assert len(list((tmp_path / "state").glob("*/chk-*"))) == 1
