"""Two pipelines writing into one directory against a list: what is visible is what was committed, once."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.clock import ManualClock
from tidegate.connectors.files import FileSink, TextLines
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import (
    CommitAnswer,
    Committable,
    Committer,
    CommitterContext,
    SinkWriter,
    WriterContext,
)

UID, LINEAGE, CLOCK = OperatorUid("sink"), LineageId("1f"), ManualClock()
who = st.sampled_from(["orders", "orders2"])


@dataclass
class Pipeline:
    """One pipeline's writer, and what became of what it wrote."""

    name: PipelineId
    sink: FileSink
    attempt: int = 0
    checkpoint: int = 0
    writer: SinkWriter = field(init=False)
    open: list[str] = field(default_factory=list)
    prepared: list[tuple[Committable, list[str]]] = field(default_factory=list)
    decided: list[tuple[Committable, list[str]]] = field(default_factory=list)
    committed: list[Committable] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open_writer()

    def open_writer(self) -> None:
        self.attempt += 1
        attempt = str(self.attempt)
        self.writer = self.sink.open_writer(
            WriterContext(self.name, UID, Subtask("sink", 0), 1, LINEAGE, Branch(0), attempt, (), CLOCK)
        )

    def committer(self) -> Committer:
        return self.sink.open_committer(CommitterContext(self.name, UID, LINEAGE, CLOCK))


class FileSinkMachine(RuleBasedStateMachine):
    """Write, prepare, decide, commit and crash in any order that the protocol allows."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.directory = Path(self.folder.name)
        sink = FileSink(self.directory, TextLines())
        self.pipelines = {name: Pipeline(PipelineId(name), sink) for name in ("orders", "orders2")}
        self.numbers = count()
        self.visible: list[str] = []

    @rule(name=who, records=st.integers(1, 3))
    def write(self, name: str, records: int) -> None:
        values = [f"{name} {next(self.numbers)}" for _ in range(records)]
        self.pipelines[name].writer.write(Batch(values))
        self.pipelines[name].open += values

    @rule(name=who)
    def prepare(self, name: str) -> None:
        pipeline = self.pipelines[name]
        pipeline.checkpoint += 1
        checkpoint = CheckpointId(pipeline.checkpoint)
        prepared = pipeline.writer.prepare(checkpoint)
        assert (prepared is None) is (not pipeline.open)
        if prepared is not None:
            pipeline.prepared.append((Committable(UID, 0, checkpoint, *prepared), pipeline.open))
            pipeline.open = []

    @rule(name=who)
    def decide(self, name: str) -> None:
        pipeline = self.pipelines[name]
        pipeline.decided += pipeline.prepared
        pipeline.prepared = []

    @rule(name=who)
    def commit_the_oldest_and_everything_again(self, name: str) -> None:
        pipeline = self.pipelines[name]
        again = [CommitAnswer.ALREADY_COMMITTED] * len(pipeline.committed)
        new = [work for work, _ in pipeline.decided[:1]]
        answers = pipeline.committer().commit([*pipeline.committed, *new])
        assert answers == again + [CommitAnswer.COMMITTED] * len(new)
        for work, values in pipeline.decided[:1]:
            pipeline.committed.append(work)
            self.visible += values
        del pipeline.decided[:1]

    @rule(name=who)
    def crash_and_restore(self, name: str) -> None:
        pipeline = self.pipelines[name]
        leftovers = len(pipeline.prepared) + bool(pipeline.open)
        pipeline.writer.close()
        assert pipeline.committer().abort_except([work for work, _ in pipeline.decided]) == leftovers
        pipeline.prepared, pipeline.open = [], []
        pipeline.checkpoint = max(
            (work.checkpoint for work, _ in pipeline.decided), default=pipeline.checkpoint
        )
        pipeline.open_writer()

    @invariant()
    def exactly_what_was_committed_is_visible(self) -> None:
        lines = [line for path in self.directory.glob("*") for line in _lines(path)]
        assert sorted(lines) == sorted(self.visible)

    def teardown(self) -> None:
        for pipeline in self.pipelines.values():
            pipeline.writer.close()
        self.folder.cleanup()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []


TestFileSinkMachine = FileSinkMachine.TestCase
