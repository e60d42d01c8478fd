"""What changes are reaches sinks, over every exchange, from a checkpoint that overtakes records, and in batch jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.changes import Changes, Notes, check, noted, run
from tidegate.backends.storage import open_storage
from tidegate.common import Row, RowKind
from tidegate.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from tidegate.errors import JobFailedError
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.timeline import Timeline
from tidegate.testing.harness import Harness

COUNT = 3_000
ROWS = [Row.of_kind(RowKind(number % 4), number % 3, number) for number in range(60)]
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
