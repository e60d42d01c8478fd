"""State that functions write as bytes of their own, over epochs on Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.conftest import SPARK_ONLY
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import CheckpointedFunction, KeyedProcessFunction, StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, SPARK_ONLY]


def program(directory: Path, target: str, parallelism: int, count: int, place: Path | None = None) -> Any:
    """Numbers the records of each of 7 keys; what it counts in is bytes in a checkpoint."""

    class Numbers(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            self.counts: dict[int, int] = {}
            for _, stream in context.get_raw_keyed_state_inputs():
                self.counts |= pickle.load(stream)

        def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
            key = ctx.get_current_key()
            self.counts[key] = self.counts.get(key, 0) + 1
            yield [key, self.counts[key]]

        def snapshot_state(self, context: Any) -> None:
            output = context.get_raw_keyed_operator_state_output()
            for key, count in self.counts.items():
                group = output.key_group_of(key)
                output.start_new_key_group(group)
                pickle.dump({key: count}, output)

    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "execution.spark.epoch-records": 30,
            "execution.checkpointing.interval": "50 ms",
            "state.checkpoints.dir": str(directory / "state"),
            "parallelism.default": parallelism,
            "pipeline.progress": "off",
            **({"execution.savepoint.path": str(place)} if place is not None else {}),
        }
    )
    numbers = env.from_source(GeneratorSource(int, count=count, splits=2)).uid(f"numbers-{parallelism}")
    keyed = numbers.key_by(lambda number: number % 7).process(Numbers()).uid("numbered")
    keyed.map(json.dumps).sink_to(FileSink(str(directory / "output"))).uid("files")
    return env.execute("numbered")


@pytest.mark.usefixtures("spark")
def test_bytes_of_key_groups_pass_from_epoch_to_epoch_and_on_to_another_executor(tmp_path: Path) -> None:
    first = program(tmp_path / "one", "local[2]", 2, 210)
    place = tmp_path / "one" / "state" / first.run / f"chk-{first.checkpoint}"
    assert first.checkpoint >= 3
    program(tmp_path / "two", "inline", 3, 70, place)

    def rows(name: str) -> list[list[int]]:
        files = (tmp_path / name / "output").glob("part-*")
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted(json.loads(each) if isinstance(each, str) else each for each in found)

    assert rows("one") == [[key, count] for key in range(7) for count in range(1, 31)]
    assert rows("two") == [[key, count] for key in range(7) for count in range(31, 41)]
