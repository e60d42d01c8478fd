"""A directory that commits in two phases: every answer it can give, and every way it can be unfit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tidegate import faults
from tidegate.connectors.base import FileCommitter, FileWriter, PendingFile, pending_files
from tidegate.connectors.base.local_files import LocalCommitterStore
from tidegate.connectors.files import TextLines
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, InternalError, RecordError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, Retry, WriterContext

ONE, TWO = CheckpointId(1), CheckpointId(2)


@pytest.fixture
def writer(tmp_path: Path, writer_context: Callable[..., WriterContext]) -> Iterator[FileWriter]:
    writer = FileWriter(tmp_path, writer_context(), TextLines(), "part", ".txt")
    yield writer
    writer.close()


@pytest.fixture
def committer(tmp_path: Path, committer_context: CommitterContext) -> FileCommitter:
    return FileCommitter(tmp_path, committer_context)


@pytest.fixture
def work(writer: FileWriter, committable: Callable[..., Committable]) -> Committable:
    writer.write(Batch(["a", "b"]))
    return committable(writer.prepare(ONE))


def pending(directory: Path, work: Committable) -> Path:
    return directory / ".tidegate" / "orders.sink" / only(work).pending


def only(work: Committable) -> PendingFile:
    (file,) = pending_files(work)
    return file


def hidden(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / ".tidegate").rglob("*") if path.is_file())


def test_open_work_and_prepared_work_are_hidden(tmp_path: Path, writer: FileWriter) -> None:
    writer.write(Batch(["a"]))
    assert hidden(tmp_path) == ["1f.0-0-open-1.inprogress"]
    writer.prepare(ONE)
    assert hidden(tmp_path) == ["1f.0-0-1-1.pending"]
    assert [path.name for path in tmp_path.iterdir()] == [".tidegate"]


def test_a_commit_leaves_nothing_hidden(tmp_path: Path, committer: FileCommitter, work: Committable) -> None:
    assert committer.commit([work]) == [CommitAnswer.COMMITTED]
    assert hidden(tmp_path) == []
    assert Path(work.describe).read_text() == "a\nb\n"


def test_what_is_acknowledged_is_durable_first(
    tmp_path: Path,
    writer: FileWriter,
    committer: FileCommitter,
    committable: Callable[..., Committable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, str]] = []
    for name in ("fsync", "link", "unlink"):
        monkeypatch.setattr(os, name, noting(calls, name, getattr(os, name)))

    writer.write(Batch(["a"]))
    work = committable(writer.prepare(ONE))
    committer.commit([work])

    open_file, pending_file = "1f.0-0-open-1.inprogress", "1f.0-0-1-1.pending"
    assert calls == [
        ("fsync", open_file),
        ("link", open_file),
        ("unlink", open_file),
        ("fsync", "orders.sink"),
        ("link", pending_file),
        ("fsync", tmp_path.name),
        ("unlink", pending_file),
    ]


def noting(calls: list[tuple[str, str]], name: str, real: Callable[..., None]) -> Callable[..., None]:
    """The real call, noted with the name of the file it is about."""

    def call(what: int | str, *others: str) -> None:
        path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else Path(what)
        calls.append((name, path.name))
        real(what, *others)

    return call


def test_a_commit_interrupted_before_the_pending_file_went_is_finished(
    tmp_path: Path, committer: FileCommitter, work: Committable
) -> None:
    os.link(pending(tmp_path, work), work.describe)

    assert committer.commit([work]) == [CommitAnswer.ALREADY_COMMITTED]
    assert hidden(tmp_path) == []


def test_an_output_moved_away_after_the_commit_is_unknown(
    committer: FileCommitter, work: Committable
) -> None:
    committer.commit([work])
    Path(work.describe).unlink()

    assert committer.commit([work]) == [CommitAnswer.UNKNOWN]


@pytest.mark.parametrize("content", ["A\nb\n", "longer than it was"], ids=["same size", "other size"])
@pytest.mark.parametrize("pending_is_gone", [True, False], ids=["pending gone", "pending there"])
def test_another_file_under_the_final_name_is_unknown_and_never_overwritten(
    tmp_path: Path, committer: FileCommitter, work: Committable, content: str, pending_is_gone: bool
) -> None:
    Path(work.describe).write_text(content)
    if pending_is_gone:
        pending(tmp_path, work).unlink()

    assert committer.commit([work]) == [CommitAnswer.UNKNOWN]
    assert Path(work.describe).read_text() == content
    assert pending(tmp_path, work).exists() is not pending_is_gone


def test_a_directory_under_the_final_name_is_unknown(committer: FileCommitter, work: Committable) -> None:
    Path(work.describe).mkdir()

    assert committer.commit([work]) == [CommitAnswer.UNKNOWN]


def test_what_the_file_system_refuses_for_now_is_asked_again(
    tmp_path: Path, committer: FileCommitter, work: Committable
) -> None:
    # A file in the place of the folder: every call on it fails although nothing is known to be gone.
    folder = pending(tmp_path, work).parent
    folder.rename(tmp_path / "aside")
    folder.touch()
    (answer,) = committer.commit([work])
    assert isinstance(answer, Retry)
    assert "Not a directory" in answer.reason

    folder.unlink()
    (tmp_path / "aside").rename(folder)
    assert committer.commit([work]) == [CommitAnswer.COMMITTED]


def test_a_crash_between_two_pieces_leaves_each_whole(
    tmp_path: Path,
    writer: FileWriter,
    committer: FileCommitter,
    work: Committable,
    committable: Callable[..., Committable],
) -> None:
    writer.write(Batch(["c"]))
    second = committable(writer.prepare(TWO), 2)
    faults.arm(faults.parse("commit.between!raise"), "test", tmp_path / "witnesses")
    try:
        with pytest.raises(RuntimeError, match=r"injected at commit\.between"):
            committer.commit([work, second])
    finally:
        faults.disarm()

    assert Path(work.describe).exists()
    assert not Path(second.describe).exists()
    assert committer.commit([work, second]) == [CommitAnswer.ALREADY_COMMITTED, CommitAnswer.COMMITTED]


def test_a_crash_before_the_flush_leaves_open_work_only(tmp_path: Path, writer: FileWriter) -> None:
    writer.write(Batch(["a"]))
    faults.arm(faults.parse("sink.before-flush!raise"), "test", tmp_path / "witnesses")
    try:
        with pytest.raises(RuntimeError, match=r"injected at sink\.before-flush"):
            writer.prepare(ONE)
    finally:
        faults.disarm()
    writer.close()

    assert hidden(tmp_path) == ["1f.0-0-open-1.inprogress"]


def test_abort_leaves_files_it_does_not_know(
    tmp_path: Path, committer: FileCommitter, work: Committable
) -> None:
    stranger = pending(tmp_path, work).with_name("notes.pending")
    stranger.touch()

    assert committer.abort_except([]) == 1
    assert hidden(tmp_path) == ["notes.pending"]


def test_abort_without_a_directory_finds_nothing(tmp_path: Path, committer_context: CommitterContext) -> None:
    assert FileCommitter(tmp_path / "never", committer_context).abort_except([]) == 0


def test_a_payload_of_another_version_stops_before_anything_is_done(
    tmp_path: Path, committer: FileCommitter, work: Committable
) -> None:
    newer = msgspec.structs.replace(work, payload=work.payload.replace(b"\xa1v\x02", b"\xa1v\x03"))

    for act in (committer.commit, committer.abort_except):
        with pytest.raises(
            StateFormatError, match=r"sink 'sink': the pending files of .* cannot be read .*version 1 or 2"
        ):
            act([work, newer])
    assert pending(tmp_path, work).exists()
    assert not Path(work.describe).exists()


def test_a_refused_batch_leaves_no_trace(writer: FileWriter, committable: Callable[..., Committable]) -> None:
    writer.write(Batch(["a"]))
    with pytest.raises(RecordError, match="record 1 is a int"):
        writer.write(Batch(["b", 1]))
    writer.write(Batch(["c"]))

    file = only(committable(writer.prepare(ONE)))
    assert (file.records, file.size) == (2, 4)


def test_a_change_that_a_file_cannot_take_back_is_refused(writer: FileWriter) -> None:
    writer.write(Batch(["a"], kinds=[RowKind.INSERT]))

    with pytest.raises(
        RecordError,
        match="file sink 'sink': the kind of a change would be lost; got 'b' as UPDATE_BEFORE; expected inserts",
    ):
        writer.write(Batch(["a", "b"], kinds=[RowKind.INSERT, RowKind.UPDATE_BEFORE]))


def test_two_writers_of_one_attempt_are_a_mistake_of_the_framework(
    tmp_path: Path, writer: FileWriter, writer_context: Callable[..., WriterContext]
) -> None:
    twin = FileWriter(tmp_path, writer_context(), TextLines(), "part", ".txt")
    writer.write(Batch(["a"]))

    with pytest.raises(InternalError, match="two writers have the same attempt id"):
        twin.write(Batch(["a"]))
    twin.close()


@pytest.mark.parametrize(
    "file", ["out", "out/below", "out/below/.tidegate"], ids=["above", "itself", "within"]
)
def test_a_file_in_the_place_of_a_directory_is_refused(
    tmp_path: Path, writer_context: Callable[..., WriterContext], file: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()

    with pytest.raises(
        ConfigError, match=f"output directory: '{tmp_path / file}' is a file; expected a directory"
    ):
        FileWriter(tmp_path / "out" / "below", writer_context(), TextLines(), "part", ".txt")


def in_another_process(body: str, directory: Path) -> str:
    program = f"""
import os, resource
from pathlib import Path
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import FileSink, TextLines
from tidegate.elements import Batch
from tidegate.ids import Subtask
from tidegate.twophase.spi import WriterContext

def opened():
    return FileSink({str(directory)!r}, TextLines()).open_writer(
        WriterContext("orders", "sink", Subtask("sink", 0), 1, "1f", 0, "1", (), SYSTEM_CLOCK))

def complaint(act):
    try:
        act()
    except Exception as error:
        print(type(error).__name__, error)
{body}
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_directory_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o555)

    said = in_another_process("if os.getuid() == 0: os.setuid(65534)\ncomplaint(opened)", tmp_path / "out")

    assert said.startswith("ConfigError output directory")
    assert "is not writable (Permission denied); grant write permission or set another directory" in said


def test_no_space_left_is_unavailable_and_the_writer_does_not_pretend_to_recover(tmp_path: Path) -> None:
    body = """
writer = opened()
writer.write(Batch(["a" * 10_000]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
complaint(lambda: writer.prepare(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
complaint(lambda: writer.prepare(2))
complaint(lambda: writer.write(Batch(["b"])))
"""
    lines = in_another_process(body, tmp_path).splitlines()

    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert lines[0].startswith(
        f"UnavailableError output directory '{tmp_path}': no space left (File too large)"
    )
    assert lines[0].endswith("free some space; the epoch is written again")


@pytest.mark.parametrize("encoder", ["ParquetRows", "OrcRows"])
@pytest.mark.parametrize("step", ["write", "prepare"])
def test_no_space_left_for_blocks_is_named_and_the_process_lives_on(
    tmp_path: Path, encoder: str, step: str
) -> None:
    compression = {"ParquetRows": "none", "OrcRows": "uncompressed"}[encoder]
    body = f"""
import pyarrow as pa
from tidegate.connectors.files import {encoder}
sink = FileSink({str(tmp_path)!r}, {encoder}(pa.schema({{"id": pa.binary()}}), compression={compression!r}))
writer = sink.open_writer(WriterContext("orders", "sink", Subtask("sink", 0), 1, "1f", 0, "1", (), SYSTEM_CLOCK))
writer.write(Batch([{{"id": b"a"}}]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
large = Batch([{{"id": os.urandom(1_000)}} for _ in range(1_000)])
def fill():
    for _ in range(300 if {step!r} == "write" else 1):
        writer.write(large)
    writer.prepare(1)
complaint(fill)
complaint(lambda: writer.prepare(2))
writer.close()
del writer
print("alive")
"""
    lines = in_another_process(body, tmp_path).splitlines()

    told = f"UnavailableError output directory '{tmp_path}': no space left (File too large); free some"
    assert lines[0].startswith(told)
    assert lines[1] == lines[0]
    assert lines[-1] == "alive"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            OSError(28, "No space left on device"),
            UnavailableError,
            r"no space left \(No space left on device\); free",
        ),
        (OSError(30, "Read-only file system"), ConfigError, r"is not writable \(Read-only file system\)"),
        (
            OSError(1, "Operation not permitted"),
            ConfigError,
            r"is not writable \(Operation not permitted\)",
        ),
        (
            OSError(1, "Operation not permitted", "a", None, "b"),
            ConfigError,
            "is on a file system without hard links, which commits need",
        ),
        (
            OSError(24, "Too many open files"),
            ConfigError,
            r"too many open files .*raise the limit \(ulimit -n\)",
        ),
        (OSError(5, "Input/output error"), UnavailableError, r"cannot write a file \(Input/output error\)"),
    ],
    ids=["full", "read only", "immutable", "no links", "many", "other"],
)
def test_errors_of_the_file_system_say_what_to_do(
    tmp_path: Path, error: OSError, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        raise LocalCommitterStore(tmp_path, "orders.sink").translate_error(error)
