"""Requests that are under way when a job is stopped: what is asked again, and what goes on once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.common import Duration
from tidegate.connectors.files import FileSink
from tidegate.datastream import MapFunction, SourceFunction, StreamExecutionEnvironment
from tidegate.datastream.async_data_stream import AsyncDataStream
from tidegate.runtime.stream.async_data_stream import AsyncFunction


class Numbers(SourceFunction):
    """Four numbers in the first run, nothing in the second; neither ends by itself."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, runtime_context: Any) -> None:
        self.over = threading.Event()

    def run(self, ctx: Any) -> None:
        if not (self.directory / "asked-1").exists():
            for number in (1, 2, 3, 4):
                ctx.collect(number)
        self.over.wait()

    def cancel(self) -> None:
        self.over.set()


class OddNumbersLater(AsyncFunction):
    """Answers even numbers at once, odd ones only in the second run; notes each question."""

    def __init__(self, directory: Path, run: int) -> None:
        self.directory, self.number = directory, run

    async def async_invoke(self, value: int) -> list[int]:
        with (self.directory / f"asked-{self.number}").open("a") as asked:
            asked.write(f"{value}\n")
        if value % 2 and self.number == 1:
            await asyncio.Event().wait()
        return [value]


class Left(MapFunction):
    """Notes what has left the queue."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, value: int) -> int:
        with (self.directory / "left").open("a") as left:
            left.write(f"{value}\n")
        return value


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_until(env: StreamExecutionEnvironment, directory: Path, run: int, ordered: bool, wanted: int) -> None:
    """Go on until so many have left the queue; then stop with a checkpoint."""
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    source = env.set_parallelism(1).add_source(Numbers(directory)).uid("in")
    answers = wait(source, OddNumbersLater(directory, run), Duration.of_minutes(1)).uid("ask")
    answers.map(Left(directory)).uid("left").sink_to(FileSink(str(directory / "out"))).uid("out")
    client = env.execute_async("requests")
    until(
        lambda: [len(numbers(directory / name)) for name in ("asked-1", "left")],
        equals=[4, wanted],
        job=client,
    )
    client.stop().result(timeout=60)


@pytest.mark.spec("000/STATE-15")
@pytest.mark.parametrize(
    ("ordered", "left", "again"),
    [(True, [], [1, 2, 3, 4]), (False, [2, 4], [1, 3])],
    ids=["ordered", "unordered"],
)
def test_all_that_has_not_left_is_asked_again_and_every_result_goes_on_once(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, ordered: bool, left: list[int], again: list[int]
) -> None:
    run_until(anywhere, tmp_path, 1, ordered, len(left))
    assert sorted(numbers(tmp_path / "asked-1")) == [1, 2, 3, 4]
    assert sorted(numbers(tmp_path / "left")) == left

    run_until(anywhere, tmp_path, 2, ordered, 4)

    # In order, 2 and 4 were answered and held by 1; they are state like what was never answered.
    assert sorted(numbers(tmp_path / "asked-2")) == again
    written = [number for part in sorted((tmp_path / "out").glob("part-*")) for number in numbers(part)]
    assert sorted(written) == [1, 2, 3, 4]
    assert not ordered or written == [1, 2, 3, 4]
