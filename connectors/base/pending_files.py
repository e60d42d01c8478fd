"""A directory that commits in two phases: what a reader lists there is complete and decided, always.

Guarantee: exactly once. Records go to `<directory>/.tidegate/<pipeline>.<uid>/...inprogress`; prepared they are a
durable `...pending`; committed they get their final name in `<directory>` by a hard link, which is atomic and never
overwrites. One file per subtask and checkpoint that has something to say.

The directory itself answers what happened to a commit:

| pending file | final file | answer |
|---|---|---|
| there | not there | `COMMITTED` |
| there or gone | same size and checksum | `ALREADY_COMMITTED` |
| gone | gone | `UNKNOWN`: a consumer may have moved it, or somebody deleted the pending file |
| there or gone | something else | `UNKNOWN`: a consumer may have replaced it; nothing is overwritten |
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import xxhash

from tidegate.elements import Batch, RowKind
from tidegate.errors import (
    ConfigError,
    InternalError,
    RecordError,
    StateFormatError,
    TidegateError,
    UnavailableError,
)
from tidegate.faults import point
from tidegate.ids import CheckpointId, OperatorUid, PipelineId
from tidegate.row import Row
from tidegate.twophase.naming import OutputName, WorkName, owner_name, parse_work, tag_of
from tidegate.twophase.spi import (
    CommitAnswer,
    Committable,
    Committer,
    CommitterContext,
    SinkWriter,
    WriterContext,
)

__all__ = ["HIDDEN", "FileCommitter", "FileEncoder", "FileWriter", "PendingFile"]

HIDDEN = ".tidegate"
"""The folder of unfinished work; listings and globs leave names with a leading dot out."""

_CHUNK = 1 << 20
_LAST = CheckpointId(2**63 - 1)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class FileEncoder(Protocol):
    """How records become bytes of a file; picklable and without state."""

    @property
    def suffix(self) -> str:
        """What file names end with, such as `.jsonl`."""
        ...

    def encode(self, values: list[Any]) -> bytes:
        """All of `values`, ready to be appended; all or nothing.

        Raises:
            RecordError: a value would not come back the same.
        """
        ...


class PendingFile(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """A committable's payload: which file becomes which, and how to recognise it. `v` versions the encoding."""

    pending: str
    final: str
    size: int
    checksum: str
    records: int

    @staticmethod
    def of(committable: Committable) -> PendingFile:
        """Read a committable's payload.

        Raises:
            StateFormatError: another version of tidegate wrote it.
        """
        try:
            return msgspec.msgpack.decode(committable.payload, type=PendingFile)
        except msgspec.MsgspecError as error:
            raise StateFormatError(
                f"sink {committable.uid!r}: the pending file of {committable.describe} cannot be read ({error}); "
                "expected version 1; run the version that wrote it"
            ) from error


class FileWriter(SinkWriter):
    """Writes one subtask's records to hidden files.

    Args:
        directory: Where the output goes; made if it is not there.
        context: Who the writer is.
        encoder: How records become bytes.
        prefix: What output files are called first.
        suffix: What their names end with.

    Raises:
        ConfigError: the directory is a file or not writable, or a name cannot be built.
        UnavailableError: it cannot be made.
    """

    def __init__(
        self, directory: Path, context: WriterContext, encoder: FileEncoder, prefix: str, suffix: str
    ) -> None:
        self._directory = directory
        self._folder = _folder(directory, context.pipeline, context.uid)
        self._context = context
        self._encoder = encoder
        self._prefix = prefix
        self._suffix = suffix
        self._broken: TidegateError | None = None
        self._reset()
        self._final_name(_LAST)
        self._work_name(_LAST)
        try:
            _make(self._folder)
        except OSError as error:
            raise _trouble(directory, error) from error

    def write(self, batch: Batch) -> None:
        """Append a batch to the open file; a batch with a record that cannot be written leaves no trace."""
        if not batch.values:
            return
        _refuse_lost_kinds(batch)
        data = self._encoder.encode(batch.values)
        self._guard()
        try:
            self._opened().write(data)
        except OSError as error:
            raise self._break(error) from error
        self._checksum.update(data)
        self._size += len(data)
        self._records += len(batch)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Make the open file durable under a pending name."""
        self._guard()
        if self._file is None:
            return None
        pending, final = self._work_name(checkpoint), self._final_name(checkpoint)
        try:
            self._seal(self._file, pending)
        except OSError as error:
            raise self._break(error) from error
        file = PendingFile(pending, final, self._size, self._checksum.hexdigest(), self._records)
        self._reset()
        return msgspec.msgpack.encode(file), str(self._directory / final), file.records

    def close(self) -> None:
        """Close the open file; what was not prepared is left for `abort_except`."""
        if self._file is not None:
            # What is still buffered need not reach the disk: nobody will ever commit this file.
            with suppress(OSError):
                self._file.close()

    def _reset(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = 0
        self._records = 0
        self._checksum = xxhash.xxh3_64()

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            path = self._folder / self._work_name(None)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            self._file = os.fdopen(handle, "wb", buffering=_CHUNK)
        return self._file

    def _seal(self, file: IO[bytes], pending: str) -> None:
        file.flush()
        point("sink.before-flush")
        os.fsync(file.fileno())
        file.close()
        # A link, not a rename: it proves before the ack that a commit will find hard links to work here.
        open_path = self._folder / self._work_name(None)
        os.link(open_path, self._folder / pending)
        open_path.unlink()
        _sync(self._folder)

    def _work_name(self, checkpoint: CheckpointId | None) -> str:
        who = self._context
        return WorkName(who.lineage, who.branch, who.subtask.index, checkpoint, who.attempt).build()

    def _final_name(self, checkpoint: CheckpointId) -> str:
        who = self._context
        tag = tag_of(who.pipeline, who.uid)
        name = OutputName(
            self._prefix, who.lineage, who.branch, tag, who.subtask.index, checkpoint, self._suffix
        )
        return name.build()

    def _break(self, error: OSError) -> TidegateError:
        # After a failed write or fsync nobody knows what the file holds; a second try must not pretend to.
        self._broken = _trouble(self._directory, error)
        return self._broken

    def _guard(self) -> None:
        if self._broken is not None:
            raise self._broken


class FileCommitter(Committer):
    """Gives pending files their final names, or removes them.

    Args:
        directory: Where the output goes.
        context: Whose work it may touch.
    """

    def __init__(self, directory: Path, context: CommitterContext) -> None:
        self._directory = directory
        self._folder = _folder(directory, context.pipeline, context.uid)

    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        """Make each file visible; what the file system refuses for now is answered `RETRY`.

        Raises:
            StateFormatError: another version wrote a payload; nothing was done.
        """
        answers: list[CommitAnswer] = []
        for file in [PendingFile.of(committable) for committable in committables]:
            if answers:
                point("commit.between")
            try:
                answers.append(self._publish(file))
            except OSError:
                answers.append(CommitAnswer.RETRY)
        return answers

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Remove open and pending files of this pipeline and operator, whichever lineage and attempt made them.

        Raises:
            StateFormatError: another version wrote a payload; nothing was done.
            UnavailableError: the file system refused.
        """
        kept = {PendingFile.of(committable).pending for committable in keep}
        try:
            if not self._folder.is_dir():
                return 0
            names = [entry.name for entry in self._folder.iterdir()]
            removed = [name for name in names if name not in kept and parse_work(name) is not None]
            for name in removed:
                (self._folder / name).unlink(missing_ok=True)
            _sync(self._folder)
        except OSError as error:
            raise _trouble(self._directory, error) from error
        return len(removed)

    def _publish(self, file: PendingFile) -> CommitAnswer:
        pending, final = self._folder / file.pending, self._directory / file.final
        answer = CommitAnswer.COMMITTED
        try:
            os.link(pending, final)
        except (FileExistsError, FileNotFoundError):
            answer = CommitAnswer.ALREADY_COMMITTED if _holds(final, file) else CommitAnswer.UNKNOWN
        if answer is not CommitAnswer.UNKNOWN:
            # The name must be durable before the only other proof of the commit goes.
            _sync(self._directory)
            pending.unlink(missing_ok=True)
        return answer


def _folder(directory: Path, pipeline: PipelineId, uid: OperatorUid) -> Path:
    return directory / HIDDEN / owner_name(pipeline, uid)


def _refuse_lost_kinds(batch: Batch) -> None:
    for value, kind in zip(batch.values, batch.kinds or (), strict=False):
        carried = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        if kind is not carried:
            raise RecordError(
                f"record {value!r} is a {kind.name.lower().replace('_', ' ')} and files only grow; "
                "expected an insert; use a sink that takes changes"
            )


def _holds(path: Path, file: PendingFile) -> bool:
    """Whether `path` is the file that was prepared."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    checksum = xxhash.xxh3_64()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            checksum.update(chunk)
    return checksum.hexdigest() == file.checksum


def _make(folder: Path) -> None:
    path = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
    if path is not None:
        raise ConfigError(
            f"output directory: {str(path)!r} is a file; expected a directory; name another one"
        )
    # A crash may have come between making our own folders and their sync, so these are synced in any case.
    new = [path for path in (folder, *folder.parents) if path in (folder, folder.parent) or not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(new):
        _sync(path.parent)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _trouble(directory: Path, error: OSError) -> TidegateError:
    """What an error of the file system means to the person who named the directory."""
    where = f"output directory {str(directory)!r}"
    if isinstance(error, FileExistsError):
        return InternalError(
            f"{where}: two writers have the same attempt id ({error.filename}); please report this"
        )
    if error.errno in _NO_LINKS and error.filename2 is not None:
        return ConfigError(
            f"{where} is on a file system without hard links, which commits need; name another one"
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return ConfigError(f"{where} is not writable ({error.strerror}); grant the right or name another one")
    if error.errno in _FULL:
        return UnavailableError(
            f"{where}: no space left ({error.strerror}); free some, the epoch is written again"
        )
    return UnavailableError(
        f"{where} did not take a file ({error.strerror or error}); the epoch is written again"
    )
