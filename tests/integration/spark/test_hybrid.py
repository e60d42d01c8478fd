"""Sources one after the other on Spark: an epoch reads of one stage, and the next begins when all readers are through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.connectors.generator import GeneratorSource, NumberSequenceSource
from tidegate.connectors.hybrid import HybridSource
from tidegate.datastream import StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_three_stages_are_read_in_many_epochs_and_nothing_twice(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "local[2]",
            "execution.spark.epoch-records": 40,
            "parallelism.default": 2,
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(tmp_path),
        }
    )
    live = lambda end: GeneratorSource(lambda number: end + number, count=10, splits=3)  # noqa: E731 # travels by value
    stages = (GeneratorSource(abs, count=200, splits=5), live, NumberSequenceSource(210, 230))

    values = list(env.from_source(HybridSource(stages), source_name="all").execute_and_collect())

    assert sorted(values) == list(range(231))
