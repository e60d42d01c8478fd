"""Checkpoints that come to nothing: the job goes on without, but it does not end without its last one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tidegate.backends.spi import Blobs
from tidegate.backends.storage import MemoryStorage
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import JobFailedError, StateFormatError, UnavailableError
from tidegate.types import Types

COUNT = 300
TOO_LARGE = r"state 'kept' is too large for its backend; got 2\d\d\d bytes; expected at most 1024; raise state.backend"


class Swells(KeyedProcessFunction):
    """Keeps too much from the first record on, and lets go of it with record `until`."""

    def __init__(self, until: int) -> None:
        self.until = until

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.kept.update("x" * 2_000 if value < self.until else "y")
        yield value


class Balks(SinkFunction):
    """Does not bring itself to save anything at its first barriers."""

    def __init__(self, times: int, directory: Path) -> None:
        self.times = times
        self.directory = directory

    def invoke(self, value: int, context: Any) -> None:
        with (self.directory / "taken").open("a") as file:
            file.write(f"{value}\n")

    def flush(self) -> None:
        for number in range(self.times):
            if not (self.directory / str(number)).exists():
                (self.directory / str(number)).touch()
                raise UnavailableError(f"not now, for the {number + 1}. time")


class Away(MemoryStorage):
    """Keeps decisions and takes no file."""

    @property
    def blobs(self) -> Blobs:
        return _TakesNothing(super().blobs)


class _TakesNothing(Blobs):
    def __init__(self, inner: Blobs) -> None:
        self._inner = inner

    def put(self, name: str, source: bytes | Path) -> None:
        raise UnavailableError("the storage is away")

    def open(self, name: str) -> BinaryIO:
        return self._inner.open(name)

    def list(self, prefix: str) -> list[str]:
        return self._inner.list(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._inner.delete(names)


@pytest.fixture
def bounded(anywhere: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
    """On the heap, with a limit of a kilobyte."""
    anywhere.configure(
        {
            "pipeline.progress": "plain",
            "state.backend.type": "heap",
            "state.backend.heap.max-state": "1 kb",
            "execution.checkpointing.interval": "20 ms",
        }
    )
    return anywhere


def test_a_checkpoint_of_too_large_a_state_is_declined_and_the_job_goes_on(
    bounded: StreamExecutionEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    numbers = bounded.from_source(GeneratorSource(lambda n: n, count=COUNT, splits=1, rate_per_second=200.0))
    swollen = numbers.key_by(lambda n: 0).process(Swells(until=COUNT - 1))

    assert sorted(swollen.execute_and_collect()) == list(range(COUNT))

    told = capfd.readouterr().err
    assert "restart" not in told
    assert re.search(rf"aborted: checkpoint \d+: {TOO_LARGE}", told)


def test_a_bounded_job_whose_state_never_fits_fails_with_the_name_of_the_state(
    bounded: StreamExecutionEnvironment,
) -> None:
    swollen = bounded.from_collection(range(10)).key_by(lambda n: 0).process(Swells(until=10))

    with pytest.raises(StateFormatError, match=TOO_LARGE):
        list(swollen.execute_and_collect())


def test_a_storage_that_stays_away_ends_a_bounded_job_after_three_tries(
    anywhere: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Away()
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: storage)
    anywhere.configure({"execution.checkpointing.interval": "20 ms"})

    with pytest.raises(
        JobFailedError,
        match=r"3 checkpoints in a row failed; the last one, checkpoint \d+: the storage is away",
    ):
        list(anywhere.from_collection(range(10)).map(lambda n: n).execute_and_collect())


def test_a_sink_that_cannot_prepare_declines_and_is_asked_again(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    anywhere.configure({"pipeline.progress": "plain", "execution.checkpointing.interval": "20 ms"})
    numbers = anywhere.from_collection(range(10))
    numbers.add_sink(Balks(1, tmp_path)).set_parallelism(1)

    result = anywhere.execute("balks")

    assert (result.state, result.restarts) == ("finished", 0)
    assert re.search(r"aborted: checkpoint \d+: .* not now, for the 1. time", capfd.readouterr().err)
    assert sorted((tmp_path / "taken").read_text().split(), key=int) == [str(n) for n in range(10)]


def test_a_sink_that_cannot_prepare_twice_in_a_row_is_restored(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    anywhere.configure(
        {"execution.checkpointing.interval": "20 ms", "restart-strategy.fixed-delay.attempts": 1}
    )
    anywhere.from_collection(range(10)).add_sink(Balks(2, tmp_path)).set_parallelism(1)

    assert anywhere.execute("balks twice").restarts == 1


class Stumbles(MapFunction, CheckpointedFunction):
    """Notes the numbers of checkpoints; declines one and dies with the next."""

    def __init__(self, noted: Path) -> None:
        self.noted = noted

    def map(self, value: int) -> int:
        return value

    def initialize_state(self, context: Any) -> None:
        self.restored_from = context.get_restored_checkpoint_id()

    def snapshot_state(self, context: Any) -> None:
        with self.noted.open("a") as file:
            file.write(f"{context.get_checkpoint_id()}\n")
        match len(self.noted.read_text().split()):
            case 2:
                raise UnavailableError("not this one")
            case 3:
                raise OSError("disk")


def test_no_two_checkpoints_have_one_number(anywhere: StreamExecutionEnvironment, tmp_path: Path) -> None:
    anywhere.configure(
        {
            "execution.checkpointing.interval": 20,
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    source = GeneratorSource(int, count=200, rate_per_second=400)
    step = (
        anywhere.from_source(source).set_parallelism(1).map(Stumbles(tmp_path / "noted")).set_parallelism(1)
    )
    step.filter(lambda _: False).print()
    anywhere.execute()

    numbers = [int(line) for line in (tmp_path / "noted").read_text().split()]
    assert numbers[:4] == [1, 2, 3, 4]
    assert numbers == sorted(set(numbers))
