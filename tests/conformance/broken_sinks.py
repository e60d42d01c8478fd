"""Sinks with one fault each. Not collected by itself: `test_sinks.py` proves that the kit finds every fault."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tidegate.clock import new_id
from tidegate.connectors.base import FileCommitter, FileWriter, pending_files
from tidegate.connectors.files import FileSink, JsonLines, TextLines
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, FencingTerm
from tidegate.testing.claims import ClaimingSinkSuite
from tidegate.testing.sink import ExpiringSinkSuite, SinkTarget
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, CommitterContext, Retry, WriterContext


class Placed:
    """Knows where its files are."""

    _place: Any

    @property
    def _directory(self) -> Path:
        directory: Path = self._place._directory
        return directory

    @property
    def _folder(self) -> Path:
        folder: Path = self._place._folder
        return folder


class Writer(Placed, FileWriter):
    pass


class Committing(Placed, FileCommitter):
    pass


@dataclass(frozen=True)
class Faulty(FileSink):
    writer: ClassVar[type[FileWriter]] = FileWriter
    committer: ClassVar[type[FileCommitter]] = FileCommitter

    def open_writer(self, context: WriterContext) -> FileWriter:
        return self.writer(Path(self.directory), context, TextLines(), "part", ".txt")

    def open_committer(self, context: CommitterContext) -> FileCommitter:
        return self.committer(Path(self.directory), context, take_over=self.options.take_over)


class Broken(ClaimingSinkSuite):
    sink: ClassVar[type[Faulty]]

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[str]:
            return [line for path in tmp_path.glob("*.txt") for line in path.read_text().splitlines()]

        return SinkTarget(self.sink(tmp_path), read)


class TestForgetsTheAgeOfItsWork(Broken, ExpiringSinkSuite):
    class Sink(Faulty):
        class writer(Writer):  # noqa: N801
            def expires_in_ms(self) -> int:
                return 60_000

    sink = Sink


class TestForgetsRowsOfColumns(Broken):
    class Sink(Faulty):
        class writer(Writer):  # noqa: N801
            def write_arrow(self, batch: Batch) -> None:
                self.write(batch.part(slice(len(batch) - 1)))

        def open_writer(self, context: WriterContext) -> FileWriter:
            return self.writer(Path(self.directory), context, JsonLines(), "part", ".txt")

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            return [
                json.loads(line) for path in tmp_path.glob("*.txt") for line in path.read_text().splitlines()
            ]

        records = [{"id": number} for number in range(13)]
        return SinkTarget(self.Sink(tmp_path), read, records[:12], records[12])


class TestLosesCommits(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                return [CommitAnswer.COMMITTED] * len(committables)

    sink = Sink


class TestCommitsTwice(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                for file in (pending_files(work)[0] for work in committables):
                    number = len(list(self._directory.iterdir()))
                    shutil.copy(self._folder / file.pending, self._directory / f"part-{number}.txt")
                return [CommitAnswer.COMMITTED] * len(committables)

    sink = Sink


class TestCopiesAndThenMarks(Broken):
    """Doubles what was copied by a process that died before it could mark it."""

    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                return [self._commit(pending_files(work)[0].pending) for work in committables]

            def _commit(self, pending: str) -> Answer:
                mark = self._folder / f"{pending}.done"
                if mark.exists():
                    return CommitAnswer.ALREADY_COMMITTED
                if not (self._folder / pending).exists():
                    return CommitAnswer.ABORTED
                shutil.copy(self._folder / pending, self._directory / f"{new_id()}.txt")
                mark.touch()
                return CommitAnswer.COMMITTED

    sink = Sink


class TestMarksAndThenCopies(Broken):
    """Loses what was marked by a process that died before it could copy it."""

    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                return [self._commit(pending_files(work)[0].pending) for work in committables]

            def _commit(self, pending: str) -> Answer:
                try:
                    (self._folder / pending).rename(self._folder / f"{pending}.done")
                except FileNotFoundError:
                    known = (self._folder / f"{pending}.done").exists()
                    return CommitAnswer.ALREADY_COMMITTED if known else CommitAnswer.ABORTED
                shutil.copy(self._folder / f"{pending}.done", self._directory / f"{new_id()}.txt")
                return CommitAnswer.COMMITTED

    sink = Sink


class TestRefusesWithoutAReason(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                return [Retry("") for _ in committables]

    sink = Sink


class TestDuplicatesLate(Broken):
    class Sink(Faulty):
        class writer(Writer):  # noqa: N801
            def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
                for path in list(self._directory.glob("*-1.txt")):
                    shutil.copy(path, path.with_name("late.txt"))
                return super().prepare(checkpoint)

    sink = Sink


class TestIsVisibleBeforeTheCommit(Broken):
    class Sink(Faulty):
        class writer(Writer):  # noqa: N801
            def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
                work = super().prepare(checkpoint)
                for path in self._folder.glob("*.pending"):
                    shutil.copy(path, self._directory / f"{path.name}.txt")
                return work

    sink = Sink


class TestAbortsTheWorkOfOthers(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                removed = super().abort_except(keep)
                for folder in self._folder.parent.glob(f"{self._folder.name[:6]}*"):
                    shutil.rmtree(folder)
                return removed

    sink = Sink


class TestRemovesWhatANewerOwnerMade(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                self._check_owner()
                self._check_owner, self._term = (lambda: None), FencingTerm(99)
                return super().abort_except(keep)

    sink = Sink


class TestRemovesWithoutACheck(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                self._check_owner, self._term = (lambda: None), FencingTerm(99)
                return super().abort_except(keep)

    sink = Sink


class TestAbortsNothing(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                return 0

    sink = Sink


class TestAbortsWhatIsVisible(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                for path in self._directory.glob("*.txt"):
                    path.unlink()
                return super().abort_except(keep)

    sink = Sink


class TestNamesAttemptsAlike(Broken):
    class Sink(Faulty):
        class writer(Writer):  # noqa: N801
            def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
                self._folder.joinpath("1f.0-0-1-same.pending").unlink(missing_ok=True)
                open_name = self._work_name(None, 0)
                self._open[""].name = open_name.replace(f"-{self._context.attempt}.", "-same.")
                alike = replace(self._context, attempt="same")
                (self._folder / open_name).rename(self._folder / self._open[""].name)
                self._context = alike
                return super().prepare(checkpoint)

    sink = Sink


class TestNamesBranchesAlike(Broken):
    class Sink(Faulty):
        def open_writer(self, context: WriterContext) -> FileWriter:
            return super().open_writer(replace(context, branch=Branch(0)))

    sink = Sink


class TestForgetsOtherWriters(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                others = [path for path in self._folder.iterdir() if not path.name.startswith("1f.0-0-")]
                aside = [path.rename(path.with_suffix(".aside")) for path in others]
                removed = super().abort_except(keep)
                for path, back in zip(aside, others, strict=True):
                    path.rename(back)
                return removed + 1

    sink = Sink


class TestLosesOtherWriters(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                known = super().commit([work for work in committables if work.subtask == 0])
                return known + [CommitAnswer.COMMITTED] * (len(committables) - len(known))

    sink = Sink


class TestAbortsWhenItCloses(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                self.kept = keep
                return 1

            def close(self) -> None:
                if hasattr(self, "kept"):
                    super().abort_except(self.kept)
                super().close()

    sink = Sink


class TestClaimsNothing(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def claim(self) -> None:
                pass

    sink = Sink


class TestAbortsWithoutLooking(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                for path in self._folder.glob("*.pending"):
                    path.unlink()
                return super().abort_except(keep)

    sink = Sink


class TestLetsAClaimGo(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def abort_except(self, keep: Sequence[Committable]) -> int:
                removed = super().abort_except(keep)
                (self._folder / "claim").unlink(missing_ok=True)
                return removed

    sink = Sink


class TestTakesOverForAMoment(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            def claim(self) -> None:
                if not self._take_over:
                    super().claim()

    sink = Sink


class TestClaimsAtTheSameMoment(Broken):
    class Sink(Faulty):
        class committer(Committing):  # noqa: N801
            looked = threading.Barrier(4)

            def claim(self) -> None:
                if self._place.note("claim") is None:
                    self.looked.wait(10)
                    self._place._folder.mkdir(parents=True, exist_ok=True)
                    (self._folder / "claim").write_text(self._context.home)

    sink = Sink


class TestLeavesALockOpen(Broken):
    class Sink(Faulty):
        def open_writer(self, context: WriterContext) -> FileWriter:
            lock = Path(self.directory) / "lock"
            if lock.exists() and not lock.read_text().startswith(f"{os.getpid()} "):
                raise OSError("another writer is at work")
            lock.write_text(f"{os.getpid()} ")
            return super().open_writer(context)

    sink = Sink


class TestKeepsPreparedWorkInItsProcess(Broken):
    class Sink(Faulty):
        prepared: ClassVar[dict[Path, bytes]] = {}

        class writer(Writer):  # noqa: N801
            def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
                work = super().prepare(checkpoint)
                if work is not None:
                    path = next(self._folder.glob("*.pending"))
                    TestKeepsPreparedWorkInItsProcess.Sink.prepared[path] = path.read_bytes()
                    path.write_bytes(b"")
                return work

        class committer(Committing):  # noqa: N801
            def commit(self, committables: Sequence[Committable]) -> list[Answer]:
                for work in committables:
                    pending = self._folder / pending_files(work)[0].pending
                    if pending.exists():
                        pending.write_bytes(TestKeepsPreparedWorkInItsProcess.Sink.prepared.get(pending, b""))
                return super().commit(committables)

    sink = Sink
