"""What of a batch job runs again though it was finished."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.runtime.accumulators import IntCounter


def test_a_stage_that_a_checkpoint_or_the_result_needs_runs_again_with_a_later_one(tmp_path: Path) -> None:
    class Counted(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.seen = IntCounter()
            runtime_context.add_accumulator("seen", self.seen)

        def map(self, value: int) -> int:
            self.seen.add(1)
            return value

    def once(value: int) -> int:
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise ValueError("this happens once")
        return value

    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "execution.runtime-mode": "BATCH",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    numbers = env.from_collection(range(100)).rebalance().map(lambda number: number)
    numbers.sink_to(FileSink(str(tmp_path / "numbers"))).uid("numbers")
    numbers.rebalance().map(Counted()).rebalance().map(once).sink_to(FileSink(str(tmp_path / "copies"))).uid(
        "copies"
    )
    result = env.execute("needed")

    assert result.accumulators == {"seen": 100}
    for name in ("numbers", "copies"):
        lines = [line for path in (tmp_path / name).glob("part-*") for line in path.read_text().splitlines()]
        assert Counter(lines) == Counter(map(str, range(100)))
