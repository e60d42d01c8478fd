"""What a source cannot read leaves by a sink of its own, with the checkpoint that what it can read leaves with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.base import Pace, RangeReader
from tidegate.connectors.base.dead_letters import DeadLetter, DeadLetterLines
from tidegate.connectors.files import FileSink, TextLines
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import Poll, ReaderContext, Sink, Unreadable
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.elements import Batch, Origin

COUNT = 400


@dataclass(frozen=True)
class Numbers(GeneratorSource[int]):
    """Of its numbers it cannot read those that three divides."""

    dead_letters: Sink | None = None

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return _Unable(context, self._read)


class _Unable(RangeReader):
    def __init__(self, context: ReaderContext, read: Any) -> None:
        super().__init__(read, Pace(1_000, context.clock))
        self._who = (context.pipeline, context.uid)

    def poll(self, limit: int) -> Poll:
        found = super().poll(min(limit, 10))
        if not isinstance(found, Batch):
            return found
        assert found.origin is not None
        split, numbers = found.origin.split, found.values
        bad = [number for number in numbers if number % 3 == 0]
        good = [number for number in numbers if number % 3 != 0]
        letters = [DeadLetter(b"%d" % n, "divided", *self._who, (("number", str(n)),)) for n in bad]
        batch = Batch(good, origin=Origin(split, good)) if good else None
        return Unreadable(Batch(letters, origin=Origin(split, bad)), batch) if bad else found


class FailsOnce:
    """Raises at a number, the first time."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __call__(self, number: int) -> str:
        if number > COUNT // 2 and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("as planned")
        return str(number)


@pytest.fixture(
    params=[("inline", 2), ("embedded", 2), ("embedded", 3)], ids=["inline", "embedded-2", "embedded-3"]
)
def restarting(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    target, parallelism = request.param
    return Env.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": parallelism,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "50 ms",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    )


def lines(directory: Path) -> Iterator[str]:
    for path in directory.glob("part-*"):
        yield from path.read_text().splitlines()


def numbers(directory: Path) -> list[int]:
    return sorted(map(int, lines(directory)))


def of(letters: Sink | None) -> Numbers:
    return Numbers(int, COUNT, dead_letters=letters)


@pytest.mark.parametrize("exchange", [False, True], ids=["chained", "behind an exchange"])
def test_dead_letters_and_output_are_there_exactly_once_after_a_failure(
    restarting: Env, tmp_path: Path, exchange: bool
) -> None:
    out, dead = tmp_path / "out", tmp_path / "dead"
    stream = restarting.from_source(of(FileSink(str(dead), DeadLetterLines())), source_name="numbers")
    stream.uid("numbers")
    stream = stream.rebalance() if exchange else stream
    stream.map(FailsOnce(tmp_path / "failed")).sink_to(FileSink(str(out), TextLines()))
    result = restarting.execute("thirds")

    assert result.restarts == 1
    assert numbers(out) == [number for number in range(COUNT) if number % 3 != 0]
    letters = [json.loads(line) for line in lines(dead)]
    assert sorted(int(letter["place"][0][1]) for letter in letters) == list(range(0, COUNT, 3))
    assert {(each["pipeline"], each["operator"], each["error"]) for each in letters} == {
        ("thirds", "numbers", "divided")
    }


def test_a_source_of_a_parallelism_of_its_own_has_its_dead_letters_beside_it(
    restarting: Env, tmp_path: Path
) -> None:
    out, dead = tmp_path / "out", tmp_path / "dead"
    source = restarting.from_source(of(FileSink(str(dead), DeadLetterLines()))).set_parallelism(1)
    source.map(str).sink_to(FileSink(str(out), TextLines()))
    restarting.execute("alone")
    assert len(list(lines(dead))) == len(range(0, COUNT, 3))
    assert numbers(out) == [number for number in range(COUNT) if number % 3 != 0]


def test_programs_show_where_dead_letters_go(tmp_path: Path) -> None:
    env = Env.get_execution_environment({"execution.target": "inline"})
    source = env.from_source(of(FileSink(str(tmp_path), DeadLetterLines()))).uid("numbers")
    source.map(str).print()
    plan = json.loads(env.get_execution_plan())
    assert "dead letters" in str(plan)
