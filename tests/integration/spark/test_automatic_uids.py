"""A keyed step is put in front of another in a program without uids: every executor refuses to hand its state on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.errors import ConfigError

pytestmark = [pytest.mark.spark]


def steps() -> tuple[KeyedProcessFunction, KeyedProcessFunction]:
    """Classes that are made here travel by value."""

    class First(KeyedProcessFunction):
        count = state.Value(int, default=0)

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update(self.count.value() + 1)
            yield value

    class Total(KeyedProcessFunction):
        count = state.Value(int, default=0)

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update(self.count.value() + 1)
            yield {"key": ctx.get_current_key(), "count": self.count.value()}

    return First(), Total()


def run(place: Path, target: str, more: bool, **settings: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": 2,
            "pipeline.id": "uids",
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(place / "state"),
            **{f"execution.savepoint.{key}": value for key, value in settings.items()},
        }
    )
    stream = env.from_source(GeneratorSource(abs, count=8), source_name="numbers")
    first, total = steps()
    if more:
        stream = stream.key_by(lambda number: number).process(first)
    totals = stream.key_by(lambda number: number % 2).process(total)
    totals.sink_to(FileSink(str(place / "output")))
    env.execute("uids")


def counts(place: Path) -> list[int]:
    lines = [line for path in (place / "output").glob("part-*") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["count"] for line in lines)


@pytest.mark.parametrize("target", ["inline", "embedded", "local[2]"])
@pytest.mark.usefixtures("spark")
def test_a_step_in_front_does_not_get_the_state_of_the_one_behind(tmp_path: Path, target: str) -> None:
    run(tmp_path, target, more=False)

    with pytest.raises(ConfigError, match=r"--map process-1=process-2\n"):
        run(tmp_path, target, more=True, path=_newest(tmp_path))

    assert counts(tmp_path) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("target", ["inline", "embedded", "local[2]"])
@pytest.mark.usefixtures("spark")
def test_the_map_gives_state_to_the_step_that_moved(tmp_path: Path, target: str) -> None:
    run(tmp_path, target, more=False)

    run(tmp_path / "next", target, more=True, path=_newest(tmp_path), map="process-1=process-2,numbers-1=")

    assert counts(tmp_path / "next") == [5, 5, 6, 6, 7, 7, 8, 8]


def _newest(place: Path) -> str:
    return str(max((place / "state").glob("*/chk-*"), key=lambda path: int(path.name.partition("-")[2])))
