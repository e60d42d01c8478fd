"""Files that commit in two phases: what a reader lists is complete and decided, always.

Guarantee: exactly once. Records go to `<directory>/.tidegate/<pipeline>.<uid>/...inprogress`; prepared they are a
durable `...pending`; committed they get their final name by one atomic act that never overwrites.

The directory itself answers what happened to a commit:

| pending file | final file | answer |
|---|---|---|
| there | not there | `COMMITTED` |
| there or gone | same size and checksum | `ALREADY_COMMITTED` |
| gone | gone | `UNKNOWN`: a consumer may have moved it, or somebody deleted the pending file |
| there or gone | something else | `UNKNOWN`: a consumer may have replaced it; nothing is overwritten |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from tidegate.connectors.base.part_file import HeldFile
from tidegate.connectors.base.place import PendingFile
from tidegate.connectors.base.places import outlet
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.faults import point
from tidegate.ids import OperatorUid
from tidegate.twophase.naming import parse_work
from tidegate.twophase.spi import CommitAnswer, Committable, Committer, CommitterContext

__all__ = [
    "Announced",
    "FileCommitter",
    "HeldFiles",
    "PendingFiles",
    "announced",
    "held_files",
    "pending_files",
]

_SURE_FIRST = (CommitAnswer.UNKNOWN, CommitAnswer.RETRY, CommitAnswer.COMMITTED)


class Announced(msgspec.Struct, frozen=True):
    """What one writer says of folders at a checkpoint."""

    subtask: int
    parallelism: int
    branch: int
    checkpoint: int
    watermark: int | None
    partitions: tuple[str, ...]
    """The folders that get a file with this checkpoint."""
    busy: tuple[str, ...]
    """Those that files are still to come to, of records that were written."""


class PendingFiles(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="v", tag=2):
    """A committable's payload: the files of one subtask and checkpoint; `v` versions the encoding."""

    files: tuple[PendingFile, ...]
    announced: Announced | None = None


class HeldFiles(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """A writer's state: the files that no commit is due for yet; `v` versions the encoding."""

    files: tuple[HeldFile, ...]


_Payload: TypeAlias = PendingFile | PendingFiles


def pending_files(committable: Committable) -> tuple[PendingFile, ...]:
    """The files that a committable is about.

    Raises:
        StateFormatError: another version of tidegate wrote it.
    """
    payload = _payload(committable)
    return payload.files if isinstance(payload, PendingFiles) else (payload,)


def announced(committable: Committable) -> tuple[Announced, ...]:
    """What a committable's writer says of folders, if it says anything.

    Raises:
        StateFormatError: another version of tidegate wrote it.
    """
    payload = _payload(committable)
    return (payload.announced,) if isinstance(payload, PendingFiles) and payload.announced else ()


def held_files(uid: OperatorUid, states: Sequence[bytes]) -> list[HeldFile]:
    """The files that writers were still working on at a checkpoint.

    Raises:
        StateFormatError: another version of tidegate wrote it.
    """
    try:
        held = [msgspec.msgpack.decode(state, type=HeldFiles) for state in states]
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"sink {uid!r}: the state of its writers cannot be read ({error}); expected version 1; run the version "
            "that wrote it"
        ) from error
    return [file for each in held for file in each.files]


def _payload(committable: Committable) -> _Payload:
    try:
        payload: _Payload = msgspec.msgpack.decode(committable.payload, type=_Payload)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"sink {committable.uid!r}: the pending files of {committable.describe} cannot be read ({error}); "
            "expected version 1 or 2; run the version that wrote it"
        ) from error
    return payload


class FileCommitter(Committer):
    """Gives pending files their final names, or removes them.

    Args:
        directory: Where the output goes.
        context: Whose work it may touch.
    """

    def __init__(self, directory: str | Path, context: CommitterContext) -> None:
        self._uid = context.uid
        self._place = outlet(directory, context.pipeline, context.uid)
        self._in_use: set[str] = set()

    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        """Make all files visible; what the system refuses for now is answered `RETRY`.

        Raises:
            StateFormatError: another version wrote a payload; nothing was done.
        """
        answers: list[CommitAnswer] = []
        for files in [pending_files(committable) for committable in committables]:
            each: list[CommitAnswer] = []
            for file in files:
                if answers or each:
                    point("commit.between")
                try:
                    each.append(self._place.publish(file))
                except (OSError, ConfigError, UnavailableError):
                    each.append(CommitAnswer.RETRY)
            answers.append(
                next((answer for answer in _SURE_FIRST if answer in each), CommitAnswer.ALREADY_COMMITTED)
            )
        return answers

    def keep_open(self, states: Sequence[bytes]) -> None:
        """Spare the files that a checkpoint's writers were still working on."""
        held = held_files(self._uid, states)
        mine = {file for file in held if self._place.path(file.path.rpartition("/")[2]) == file.path}
        self._in_use = {name for file in mine for name in (file.path.rpartition("/")[2], *file.also)}

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Remove open and pending files of this pipeline and operator, whichever lineage and attempt made them.

        Raises:
            StateFormatError: another version wrote a payload; nothing was done.
            UnavailableError: the system refused.
        """
        kept = {name for each in keep for file in pending_files(each) for name in (file.pending, *file.also)}
        kept |= self._in_use
        try:
            names = self._place.hidden()
            removed = [name for name in names if name not in kept and parse_work(name) is not None]
            self._place.remove(removed)
        except OSError as error:
            raise self._place.trouble(error) from error
        return len(removed)
