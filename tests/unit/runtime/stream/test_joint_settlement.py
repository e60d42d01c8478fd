"""Several sinks of one checkpoint: what each promises before the decision, and what is said of all of them after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.connectors.collection import CollectSink
from tidegate.connectors.files import FileSink, TextLines
from tidegate.connectors.spi import SupportsCommit, SupportsGlobalCommit
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import Committable, CommitterContext, GlobalCommitter, WriterContext

Env = StreamExecutionEnvironment


@dataclass(frozen=True)
class Asked(FileSink):
    """Notes what it is asked before each decision, and refuses the first time."""

    notes: Path = Path()

    def pre_commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        visible = [path.name for path in Path(self.directory).glob("*.txt")]
        first = not self.notes.exists()
        with self.notes.open("a") as file:
            subtasks = sorted(each.subtask for each in committables)
            file.write(msgspec.json.encode((checkpoint, subtasks, visible)).decode() + "\n")
        if first:
            raise UnavailableError("not yet")


@dataclass(frozen=True)
class Staged(FileSink):
    """Notes for each stage of a checkpoint how many pieces of work it has and how many lines are visible behind it."""

    notes: Path = Path()

    def note(self, stage: str, checkpoint: int, pieces: int) -> None:
        with self.notes.open("a") as file:
            seen = len(lines(Path(self.directory)))
            file.write(msgspec.json.encode((checkpoint, stage, pieces, seen)).decode() + "\n")

    def open_writer(self, context: WriterContext) -> Any:
        writer, note = super().open_writer(context), self.note

        class Writer(type(writer)):  # type: ignore[misc]  # whichever class it is
            def prepare(self, checkpoint: CheckpointId) -> Any:
                prepared = super().prepare(checkpoint)
                note("prepared", checkpoint, int(prepared is not None))
                return prepared

        writer.__class__ = Writer
        return writer

    def open_committer(self, context: CommitterContext) -> Any:
        committer, note = super().open_committer(context), self.note

        class Committer(type(committer)):  # type: ignore[misc]  # whichever class it is
            def commit(self, committables: Sequence[Committable]) -> Any:
                answers = super().commit(committables)
                note("committed", committables[0].checkpoint, len(committables))
                return answers

        committer.__class__ = Committer
        return committer

    def open_global_committer(self, context: CommitterContext) -> Any:
        note = self.note

        class Whole(GlobalCommitter):
            def commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
                note("whole", checkpoint, len(committables))

        return Whole()


def lines(directory: Path) -> list[str]:
    return sorted(line for path in directory.glob("*.txt") for line in path.read_text().splitlines())


def test_a_sink_is_asked_about_the_work_of_all_writers_before_any_of_it_is_visible(
    anywhere: Env, tmp_path: Path
) -> None:
    anywhere.configure({"execution.checkpointing.interval": "3 s"})
    asked, notes = tmp_path / "asked", tmp_path / "notes"
    asked.mkdir()
    words = [f"word {number}" for number in range(20)]
    stream = anywhere.from_collection(words)
    stream.sink_to(Asked(asked, TextLines(), notes=notes))

    anywhere.execute()

    refused, *granted = [msgspec.json.decode(line) for line in notes.read_text().splitlines()]
    assert len({tuple(subtasks) for _, subtasks, _ in (refused, *granted)}) == 1
    assert len(refused[1]) == anywhere.get_parallelism()
    assert [visible for _, _, visible in (refused, *granted)] == [[]] * (1 + len(granted))
    assert granted
    assert granted[-1][0] > refused[0]
    assert lines(asked) == sorted(words)


@pytest.mark.spec("003/SNK-10", "003/SNK-11", "003/SNK-12", "003/SNK-13", "003/SNK-14")
def test_writers_prepare_what_committers_commit_before_the_sink_as_a_whole_is_done(
    anywhere: Env, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    sink = Staged(tmp_path / "out", TextLines(), notes=tmp_path / "notes")
    words = anywhere.from_collection([f"word {number}" for number in range(20)])
    words.sink_to(sink)

    anywhere.execute()

    noted = [msgspec.json.decode(line) for line in sink.notes.read_text().splitlines()]
    writers = anywhere.get_parallelism()
    (last,) = {checkpoint for checkpoint, stage, _, _ in noted if stage == "whole"}
    stages = [note for checkpoint, *note in noted if checkpoint == last]
    assert stages[:writers] == [["prepared", 1, 0]] * writers
    committed = stages[writers:-1]
    assert {stage for stage, _, _ in committed} == {"committed"}
    assert sum(pieces for _, pieces, _ in committed) == writers
    assert stages[-1] == ["whole", writers, 20]
    assert issubclass(CollectSink, SupportsCommit)
    assert not issubclass(CollectSink, SupportsGlobalCommit)


def test_the_outcome_of_each_sink_is_in_the_record_of_events(anywhere: Env, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    anywhere.configure({"pipeline.event-log": str(log)})
    for name in ("orders", "audit"):
        (tmp_path / name).mkdir()
    stream = anywhere.from_collection(["a", "b", "c", "d", "e", "f"])
    stream.sink_to(FileSink(tmp_path / "orders", TextLines())).uid("orders")
    stream.sink_to(FileSink(tmp_path / "audit", TextLines())).uid("audit")

    anywhere.execute()

    events = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    (decided,) = [event for event in events if event["what"] == "decided" and event.get("sinks")]
    answers = [event["sinks"] for event in events if event["what"] == "committed"]
    assert decided["sinks"] == {name: anywhere.get_parallelism() for name in ("orders", "audit")}
    assert decided["transactions"] == 2 * anywhere.get_parallelism()
    assert answers[-1] == {}
    assert [event["what"] for event in events if event.get("checkpoint") == decided["checkpoint"]][
        -1
    ] == "settled"
