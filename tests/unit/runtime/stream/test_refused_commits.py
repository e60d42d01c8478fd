"""A sink whose commits are refused: what is said of it, how the job ends, and that the next start commits it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.connectors.base.output_place import PendingFile
from tidegate.connectors.files import FileSink, TextLines
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import CommitFailedError
from tidegate.twophase.spi import CommitterContext

Env = StreamExecutionEnvironment

WORDS = [f"word {number}" for number in range(20)]


@dataclass(frozen=True)
class Locked(FileSink):
    """The file system refuses the final names as long as a file is there, whoever runs the test."""

    lock: Path = Path()

    def open_committer(self, context: CommitterContext) -> Any:
        committer: Any = super().open_committer(context)
        publish, lock = committer._place.publish, self.lock

        def refused(file: PendingFile) -> Any:
            if lock.exists():
                raise PermissionError(13, "Permission denied", file.final)
            return publish(file)

        committer._place.publish = refused
        return committer


def test_a_job_whose_output_is_refused_fails_with_the_reason_and_commits_when_it_starts_again(
    anywhere: Env, tmp_path: Path
) -> None:
    log, out, lock = tmp_path / "events.jsonl", tmp_path / "out", tmp_path / "lock"
    out.mkdir()
    lock.touch()
    anywhere.configure({"pipeline.event-log": str(log), "execution.checkpointing.timeout": "4 s"})

    def run() -> None:
        anywhere.from_collection(WORDS).uid("words").sink_to(Locked(out, TextLines(), lock=lock)).uid("out")
        anywhere.execute("refused")

    with pytest.raises(
        CommitFailedError, match=r"refused for 4 s at the end of the job: sink 'out'"
    ) as failed:
        run()
    assert "is not writable (Permission denied); grant write permission" in str(failed.value)
    assert "nothing is lost; repair the cause and start the job again" in str(failed.value)
    events = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    told = [event for event in events if event["what"] == "retrying"]
    assert len(told) == 1
    assert "is not writable (Permission denied)" in told[0]["text"]
    assert not [event for event in events if event["what"] == "committed"]

    lock.unlink()
    run()
    written = [line for path in out.glob("*.txt") for line in path.read_text().splitlines()]
    assert sorted(written) == sorted(WORDS)
