"""The two phases of a file sink: temporary files at the barrier, their final names behind the decision, and crashes."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.files import FileSink, TextLines
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import TidegateError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import Committable, CommitterContext, WriterContext

Env = StreamExecutionEnvironment
WORDS = [f"word {number}" for number in range(12)]


@dataclass(frozen=True)
class Crashing(FileSink):
    """Ends the job before or behind the first phase, or before or behind the second one, as long as a file says so."""

    orders: Path = Path()

    def open_writer(self, context: WriterContext) -> Any:
        writer, orders = super().open_writer(context), self.orders

        class Writer(type(writer)):  # type: ignore[misc]  # whichever class it is
            def prepare(self, checkpoint: CheckpointId) -> Any:
                if (orders / "unprepared").exists():
                    raise RuntimeError("crashed before the first phase")
                return super().prepare(checkpoint)

        writer.__class__ = Writer
        return writer

    def pre_commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        if (self.orders / "before").exists():
            raise RuntimeError("crashed before the decision")

    def open_committer(self, context: CommitterContext) -> Any:
        committer, orders = super().open_committer(context), self.orders

        class Committer(type(committer)):  # type: ignore[misc]  # whichever class it is
            def commit(self, committables: Sequence[Committable]) -> Any:
                if (orders / "behind").exists():
                    raise RuntimeError("crashed behind the decision")
                answers = super().commit(committables)
                if (orders / "committed").exists():
                    raise RuntimeError("crashed behind the commit")
                return answers

        committer.__class__ = Committer
        return committer


@pytest.mark.spec(
    "003/EX-35", "003/SNK-05", "003/SNK-07", "003/SNK-08", "003/SNK-09", "004/EOS-006", "004/HIV-009"
)
def test_temporary_files_are_discarded_before_the_decision_and_renamed_behind_it(
    anywhere: Env, tmp_path: Path
) -> None:
    output, before, behind = tmp_path / "output", tmp_path / "before", tmp_path / "behind"
    output.mkdir()

    def start() -> int:
        sink = Crashing(output, TextLines(), orders=tmp_path)
        anywhere.from_collection(WORDS).sink_to(sink).uid("words")
        return anywhere.execute("words to files").records

    def temporary() -> set[str]:
        return {path.name for path in (output / ".tidegate").rglob("*.pending")}

    before.touch()
    with pytest.raises(TidegateError, match="crashed before the decision"):
        start()
    discarded = temporary()
    assert len(discarded) == anywhere.get_parallelism()
    assert visible(output) == []

    before.unlink()
    behind.touch()
    with pytest.raises(TidegateError, match="crashed behind the decision"):
        start()
    decided = temporary()
    assert len(decided) == anywhere.get_parallelism()
    assert not decided & discarded
    assert visible(output) == []
    written = {path.stat().st_ino for path in (output / ".tidegate").rglob("*.pending")}

    behind.unlink()
    assert start() == 0, "what was decided is renamed, nothing is read again"
    assert temporary() == set()
    assert {path.stat().st_ino for path in output.glob("*.txt")} == written
    assert visible(output) == sorted(WORDS)


def visible(output: Path) -> list[str]:
    return sorted(line for path in output.glob("*.txt") for line in path.read_text().splitlines())


def held(output: Path) -> list[Path]:
    return list((output / ".tidegate").rglob("*.pending"))


@pytest.mark.spec("001/EX-04", "004/EOS-007", "003/SNK-01")
@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("unprepared", "crashed before the first phase"),
        ("before", "crashed before the decision"),
        ("behind", "crashed behind the decision"),
        ("committed", "crashed behind the commit"),
    ],
    ids=["before the pre-commit", "behind the pre-commit", "before the commit", "behind the commit"],
)
def test_each_record_is_in_the_directory_once_whatever_the_moment_of_a_crash(
    anywhere: Env, tmp_path: Path, moment: str, words: str
) -> None:
    output, order = tmp_path / "output", tmp_path / moment
    output.mkdir()

    def start() -> None:
        anywhere.from_collection(WORDS).sink_to(Crashing(output, TextLines(), orders=tmp_path)).uid("words")
        anywhere.execute("words to files")

    order.touch()
    with pytest.raises(TidegateError, match=words):
        start()
    order.unlink()
    start()

    assert visible(output) == sorted(WORDS)


@dataclass(frozen=True)
class Voting(FileSink):
    """Its second subtask says no to the first checkpoint, or nothing until that is given up."""

    vote: str = "yes"
    log: Path = Path()

    def open_writer(self, context: WriterContext) -> Any:
        writer, vote, log = super().open_writer(context), self.vote, self.log
        if context.subtask.index != 1:
            return writer

        class Writer(type(writer)):  # type: ignore[misc]  # whichever class it is
            def prepare(self, checkpoint: CheckpointId) -> Any:
                aborted = '"what":"aborted"'
                if vote == "no":
                    raise RuntimeError("no")
                while vote == "silent" and aborted not in log.read_text():
                    threading.Event().wait(0.01)
                return super().prepare(checkpoint)

        writer.__class__ = Writer
        return writer


@pytest.mark.spec("004/AX-023", "004/EOS-010", "004/EOS-011", "004/EOS-012")
@pytest.mark.parametrize("vote", ["yes", "no", "silent"])
@pytest.mark.spec("004/BAR-007")
def test_a_checkpoint_commits_if_all_subtasks_prepare_and_is_rolled_back_if_one_refuses_or_is_silent(
    anywhere: Env, tmp_path: Path, vote: str
) -> None:
    output, log = tmp_path / "output", tmp_path / "events"
    output.mkdir()
    anywhere.configure(
        {
            "pipeline.event-log": str(log),
            "execution.checkpointing.timeout": "300 ms" if vote == "silent" else "10 min",
            "execution.checkpointing.tolerable-failed-checkpoints": 0,
        }
    )

    def start(vote: str) -> None:
        sink = Voting(output, TextLines(), vote=vote, log=log)
        anywhere.from_collection(WORDS).rebalance().sink_to(sink).set_parallelism(2).uid("words")
        anywhere.execute("words to files")

    if vote == "yes":
        start(vote)
    else:
        with pytest.raises(TidegateError, match="no" if vote == "no" else "not acknowledged within 300 ms"):
            start(vote)

    happened = [json.loads(line)["what"] for line in log.read_text().splitlines()]
    assert ("decided" in happened, "committed" in happened) == (vote == "yes", vote == "yes")
    assert visible(output) == (sorted(WORDS) if vote == "yes" else [])
    if vote != "yes":
        assert held(output) or vote == "no", "the one that said yes has prepared its work"
        start("yes")
        assert visible(output) == sorted(WORDS), "of what was prepared before, nothing is left"
    assert held(output) == [], "nobody holds anything any more"
