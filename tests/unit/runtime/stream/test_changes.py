"""What changes are reaches sinks, over every exchange, from a checkpoint that overtakes records, and in batch jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.changes import Changes, Notes, check, noted, run
from tidegate.backends.storage import open_storage
from tidegate.common import Row, RowKind, Time
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import JobFailedError
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.timeline import Timeline
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions
from tidegate.testing.harness import Harness

COUNT = 3_000
ROWS = [Row.of_kind(RowKind(number % 4), number % 3, number) for number in range(60)]
COPIES = OutputTag("copies")
CHANGES = Counter((number % 4, (number % 3, number)) for number in range(60))


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_changes_pass_every_exchange(anywhere: StreamExecutionEnvironment, tmp_path: Path, mode: str) -> None:
    anywhere.set_runtime_mode(RuntimeExecutionMode[mode])
    run(anywhere, tmp_path)

    check(tmp_path, parallelism=2)


@pytest.mark.parametrize("exchange", [False, True], ids=["chained", "behind an exchange"])
def test_a_function_that_cannot_see_what_a_change_is_gets_none(exchange: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "restart-strategy.type": "none"}
    )
    changes = env.from_source(Changes(lambda number: number, COUNT))
    (changes.rebalance() if exchange else changes).add_sink(print)

    with pytest.raises(JobFailedError, match=r"kind of a change would be lost; got \d+ as UPDATE_"):
        env.execute("lost")


class Same(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_rows_are_changes_behind_steps_and_sorted_input(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, mode: str
) -> None:
    anywhere.set_runtime_mode(RuntimeExecutionMode[mode])
    rows = anywhere.from_collection(ROWS).map(lambda row: row)
    same = rows.key_by(lambda row: row[0]).process(Same())
    pairs = same.key_by(lambda row: row[0]).map(lambda row: row).rebalance()
    pairs.sink_to(Notes(tmp_path))
    anywhere.execute("rows")

    assert noted(tmp_path) == CHANGES


def overtaken(directory: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": 2,
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(directory / "state"),
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.unaligned.enabled": True,
            "restart-strategy.type": "none",
        }
    )
    changes = env.from_source(Changes(lambda number: number, COUNT, rate_per_second=3_000.0))
    changes.set_parallelism(1).uid("changes").rebalance().sink_to(Notes(directory, fatal=COUNT // 2)).uid(
        "notes"
    )
    env.execute("overtaken")


def test_changes_that_a_checkpoint_overtakes_are_changes_after_a_restore(tmp_path: Path) -> None:
    with pytest.raises(JobFailedError, match="half-way"):
        overtaken(tmp_path)
    with Timeline(open_storage(str(tmp_path / "state")), PipelineId("overtaken")) as timeline:
        kept = [operator.uid for operator in timeline.manifest(None).operators if operator.in_flight]
    assert kept == ["notes"]
    before = noted(tmp_path)

    overtaken(tmp_path)

    found = noted(tmp_path)
    assert set(found) == {(number % 4, number) for number in range(COUNT)}
    assert all(0 < count <= 2 for count in found.values())
    assert sum(before.values()) < COUNT


def test_a_harness_takes_and_shows_changes() -> None:
    with Harness(lambda stream: stream.key_by(lambda row: row[0]).map(lambda row: row)) as harness:
        for row in ROWS[:4]:
            harness.push(row)
        assert harness.take_changes() == [(RowKind(number), ROWS[number]) for number in range(4)]


def test_kinds_pass_from_rows_of_a_function_and_through_side_outputs(
    anywhere: StreamExecutionEnvironment,
) -> None:
    changes = [Row.of_kind(RowKind(number % 4), number) for number in range(12)]
    rows = anywhere.from_collection(changes).map(lambda row: row)
    calc = Expressions(
        (Branch("make(v[0] * 2)", "v[0] % 2"), Branch("make(-v[0])", tag=COPIES)), names={"make": Row}
    )
    doubled = rows.transform("calc", EXPRESSIONS, calc)

    every = doubled.union(doubled.get_side_output(COPIES)).map(lambda row: (int(row.get_row_kind()), row[0]))

    assert sorted(every.execute_and_collect()) == sorted(
        [(number % 4, number * 2) for number in range(12) if number % 2]
        + [(number % 4, -number) for number in range(12)]
    )


class Echo(AsyncFunction):
    async def async_invoke(self, value: Row) -> list[Row]:
        return [value]


class AtTheEnd(KeyedProcessFunction):
    """Emits the last row of a key by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value)
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield self.last.value()


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_answers_to_changes_are_changes(anywhere: StreamExecutionEnvironment, ordered: bool) -> None:
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    answers = wait(anywhere.from_collection(ROWS), Echo(), Time.seconds(10))

    assert Counter((int(row.get_row_kind()), tuple(row)) for row in answers.execute_and_collect()) == CHANGES


def test_timers_emit_changes_with_the_kinds_of_their_rows(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    last = anywhere.from_collection(ROWS).key_by(lambda row: row[0]).process(AtTheEnd())
    last.filter(lambda row: True).sink_to(Notes(tmp_path))

    anywhere.execute("timers")

    assert noted(tmp_path) == Counter((number % 4, (number % 3, number)) for number in (57, 58, 59))


def test_collected_rows_have_the_kinds_that_a_step_without_functions_gave_them(
    anywhere: StreamExecutionEnvironment,
) -> None:
    rows = Expressions((Branch("make(v[1])"),), names={"make": Row})
    made = anywhere.from_collection(ROWS).transform("rows", EXPRESSIONS, rows)

    assert Counter((int(row.get_row_kind()), row[0]) for row in made.execute_and_collect()) == Counter(
        (number % 4, number) for number in range(60)
    )
