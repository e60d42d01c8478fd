"""A program that goes on from a checkpoint with records on their way, when its steps are put together otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.storage import open_storage
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.errors import ConfigError, JobFailedError
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.savepoint import write_savepoint
from tidegate.runtime.checkpoint.timeline import Timeline

COUNT = 3_000


class Dawdles(MapFunction):
    """Slower than its source, until it fails."""

    def __init__(self, directory: Path) -> None:
        self.failed = directory / "failed"

    def open(self, runtime_context: Any) -> None:
        self.never = threading.Event()

    def map(self, value: int) -> int:
        if not self.failed.exists():
            self.never.wait(0.001)
            if value == COUNT // 2:
                self.failed.touch()
                raise RuntimeError("half-way")
        return value


def run(directory: Path, parallelism: int, *, name: str = "step") -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": parallelism,
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(directory / "state"),
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.unaligned.enabled": True,
            "restart-strategy.type": "none",
        }
    )
    numbers = env.from_source(GeneratorSource(lambda n: n, COUNT, rate_per_second=3_000.0)).set_parallelism(1)
    read = numbers.uid("numbers")
    step = read.map(Dawdles(directory)).uid(name)
    step.sink_to(FileSink(str(directory / "out"))).uid("out")
    env.execute("overtaken")


def written(directory: Path) -> list[int]:
    lines = [line for part in (directory / "out").glob("part-*") for line in part.read_text().splitlines()]
    return sorted(map(int, lines))


@pytest.fixture
def overtaken(tmp_path: Path) -> Iterator[Timeline]:
    """The checkpoints of a run that failed while records waited in front of a step."""
    with pytest.raises(JobFailedError, match="half-way"):
        run(tmp_path, parallelism=2)
    with Timeline(open_storage(str(tmp_path / "state")), PipelineId("overtaken")) as timeline:
        kept = [operator.uid for operator in timeline.manifest(None).operators if operator.in_flight]
        assert kept == ["step"]
        yield timeline


@pytest.mark.usefixtures("overtaken")
def test_a_step_that_is_chained_now_works_off_what_was_on_its_way_to_it(tmp_path: Path) -> None:
    run(tmp_path, parallelism=1)

    assert written(tmp_path) == list(range(COUNT))


@pytest.mark.usefixtures("overtaken")
def test_a_step_that_is_not_there_any_more_loses_no_records_unseen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds state of operator 'step', which this program does not have"):
        run(tmp_path, parallelism=2, name="other")


def test_no_canonical_savepoint_is_made_of_it(overtaken: Timeline, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match="holds in-flight records of operator 'step', which a canonical savepoint cannot hold",
    ):
        write_savepoint(overtaken.manifest(None), overtaken.files, str(tmp_path / "taken"), "heap")


def test_what_goes_round_cannot_be_overtaken(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "execution.checkpointing.unaligned.enabled": True}
    )
    with pytest.warns(DeprecationWarning, match="iterate"):
        iteration = env.from_collection([1]).iterate(10)
    iteration.close_with(iteration.map(lambda n: n + 1).filter(lambda n: n < 3))
    iteration.sink_to(FileSink(str(tmp_path)))

    with pytest.raises(
        ConfigError, match="a program with iterations takes no unaligned checkpoints, because feedback edges"
    ):
        env.execute("round")
