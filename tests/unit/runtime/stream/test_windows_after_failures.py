"""Windows that were open when a job failed hold what they held, on both executors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.written import FailOnce, Halting
from tidegate.common import Duration, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)

COUNT, FATAL = 1_500, 1_200
millis = Duration.of_millis


@pytest.mark.spec("000/STATE-13")
@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (TumblingEventTimeWindows.of(millis(1_000)), [(0, 1_000), (1_000, 500)]),
        (
            SlidingEventTimeWindows.of(millis(1_000), millis(500)),
            [(-500, 500), (0, 1_000), (500, 1_000), (1_000, 500)],
        ),
        (EventTimeSessionWindows.with_gap(millis(50)), [(0, COUNT)]),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
def test_a_restored_window_counts_each_record_once(
    tmp_path: Path, target: str, assigner: WindowAssigner, expected: list[tuple[int, int]]
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    ).enable_checkpointing(50)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    source = Halting(int, COUNT, halt=FATAL // 2)
    numbers = env.from_source(source, times, "numbers").set_parallelism(1)
    failing = numbers.map(FailOnce(FATAL, tmp_path / "failed", tmp_path / "resumed")).set_parallelism(1)
    windows = failing.key_by(lambda number: number % 2).window(assigner)

    def counted(key: int, window: Any, elements: list[int]) -> list[tuple[int, int]]:
        assert len(set(elements)) == len(elements)
        return [(window.start, len(elements))]

    starts: Counter[int] = Counter()
    for start, count in windows.apply(counted).execute_and_collect():
        # The session of the odd numbers starts one later than that of the even ones.
        starts[start - start % 2] += count

    assert sorted(starts.items()) == expected
    assert 0 < int((tmp_path / "resumed").read_text()) <= FATAL
