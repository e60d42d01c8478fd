"""A program of random steps over changes, built from a description; run as a module it reads that from its command line."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.random_changes.model import Change
from tests.random_changes.steps import DEALS, STEPS, Passes
from tests.waiting import until
from tidegate.changelog import ChangelogMode
from tidegate.common import Row, RowKind
from tidegate.connectors.base import Pace, RangeReader
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.hybrid import HybridSource
from tidegate.connectors.spi import Finished, NotYet, Poll, ReaderContext
from tidegate.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["Described", "build", "read", "stop"]

SPLITS, PER_SECOND = 3, 2_000.0


@dataclass(frozen=True)
class Described:
    """A program: its input, and what happens to it."""

    steps: list[Any]
    """Names of steps; of exchanges the name, the parallelism behind it, and the pause there for each record."""
    changes: list[Change]
    source: str = "changes"
    chained: bool = True
    bounded: bool = False
    """Whether it runs in batch mode."""


@dataclass(frozen=True)
class Changes(GeneratorSource[Row]):
    """Rows whose kinds are in the batches only; while a gate is closed its readers stop early and never end."""

    kinds: tuple[int, ...] = ()
    gate: str = ""
    early: int = 0
    """How many a reader reads while the gate is closed."""
    changelog_mode: ChangelogMode = field(default=ChangelogMode.all(), repr=False)

    @classmethod
    def of(cls, changes: list[Change], gate: str) -> Changes:
        early = len(changes) * 3 // 8
        rows, kinds = [Row(*values) for _, *values in changes], tuple(kind for kind, *_ in changes)
        return cls(rows.__getitem__, len(rows), SPLITS, PER_SECOND if gate else None, kinds, gate, early)

    def open_reader(self, context: ReaderContext) -> RangeReader:
        rate = self.rate_per_second
        return _ChangesReader(self, None if rate is None else Pace(rate / self.splits, context.clock))


class _ChangesReader(RangeReader):
    def __init__(self, source: Changes, pace: Pace | None) -> None:
        super().__init__(source._read, pace)
        self._kinds = source.kinds
        self._gate = source.gate
        self._left = source.early

    def poll(self, limit: int) -> Poll:
        closed = bool(self._gate) and not Path(self._gate).exists()
        if closed and not self._left:
            return NotYet(5)
        found = super().poll(min(limit, self._left) if closed else limit)
        if isinstance(found, Batch):
            assert found.origin is not None
            found.kinds = [RowKind(self._kinds[number]) for number in found.origin.positions]
            self._left -= min(self._left, len(found))
        return NotYet(5) if closed and isinstance(found, Finished) else found


@dataclass(frozen=True)
class ChangeFiles(FileSink):
    """Writes what each batch says of its rows: the column of kinds, and nothing that a row may know of itself."""

    def open_writer(self, context: WriterContext) -> Any:
        return _ChangeWriter(super().open_writer(context))


class _ChangeWriter(SinkWriter):
    def __init__(self, files: Any) -> None:
        self._files = files
        self.snapshot = files.snapshot

    def write(self, batch: Batch) -> None:
        kinds = batch.kinds or [RowKind.INSERT] * len(batch)
        self._files.write(Batch([[int(kind), *row] for kind, row in zip(kinds, batch.values, strict=True)]))

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        prepared: tuple[bytes, str, int] | None = self._files.prepare(checkpoint)
        return prepared

    def close(self) -> None:
        self._files.close()


def read(directory: Path) -> Counter[Change]:
    """All changes in visible files."""
    lines = [line for path in directory.glob("part-*") for line in path.read_text().splitlines()]
    return Counter((kind, key, number) for kind, key, number in map(json.loads, lines))


def build(
    program: Described, directory: Path, settings: dict[str, Any], gate: str = ""
) -> StreamExecutionEnvironment:
    """The program; exchanges have one subtask more or less from run to run, as the default parallelism has."""
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    if program.bounded:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    if not program.chained:
        env.disable_operator_chaining()
    stream, shift = _source(env, program, gate), int(settings["parallelism.default"])
    for step in program.steps:
        if isinstance(step, str):
            stream = STEPS[step](stream)
            continue
        deal, parallelism, pause_s = step
        if deal != "broadcast":  # how many copies there are would change
            parallelism = (parallelism + shift) % 2 + 1
        passes = Passes(pause_s if "jobmanager" in settings.get("testing.faults", "") else 0)
        stream = DEALS[deal](stream).filter(passes).set_parallelism(parallelism)
    stream.sink_to(ChangeFiles(directory))
    return env


def _source(env: StreamExecutionEnvironment, program: Described, gate: str) -> DataStream:
    changes = program.changes
    match program.source:
        case "collection":
            return env.from_collection([Row.of_kind(RowKind(kind), *values) for kind, *values in changes])
        case "hybrid":
            half = len(changes) // 2
            stages = (Changes.of(part, gate) for part in (changes[:half], changes[half:]))
            return env.from_source(HybridSource(tuple(stages)))
    return env.from_source(Changes.of(changes, gate))


def stop(env: StreamExecutionEnvironment, directory: Path, form: Any) -> str:
    """Run until something is visible, and end with a savepoint; its path."""
    client = env.execute_async("random")
    until(lambda: (directory.parent / "state").exists(), job=client)
    place = client.stop_with_savepoint(False, str(directory.parent), format_type=form).result(timeout=120)
    client.get_job_execution_result().result(timeout=120)
    return place


def main(directory: str, described: str, settings: str, gate: str, form: str) -> None:
    env = build(Described(**json.loads(described)), Path(directory), json.loads(settings), gate)
    print(json.dumps(stop(env, Path(directory), form) if form else asdict(env.execute("random"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
