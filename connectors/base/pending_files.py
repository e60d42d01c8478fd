"""Two-phase commit of files: every visible file is complete and decided.

Guarantee: exactly once. Records go to `<directory>/.tidegate/<pipeline>.<uid>/...inprogress`; prepared they are a
durable `...pending`; committed they get their final name by one atomic act that never overwrites.

The directory itself answers what happened to a commit:

| pending file | final file | answer |
|---|---|---|
| there | not there | `COMMITTED` |
| there or gone | same size and checksum | `ALREADY_COMMITTED` |
| gone | gone | `UNKNOWN`: a consumer may have moved it, or the pending file was deleted |
| there or gone | something else | `UNKNOWN`: a consumer may have replaced it; nothing is overwritten |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from tidegate.connectors.base.claim import ensure_claim
from tidegate.connectors.base.output_place import PendingFile
from tidegate.connectors.base.part_file import HeldFile
from tidegate.connectors.base.places import committer_store
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.faults import point
from tidegate.ids import OperatorUid
from tidegate.twophase.naming import parse_work
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Committer, CommitterContext, Retry

__all__ = [
    "Announced",
    "FileCommitter",
    "HeldFiles",
    "PendingFiles",
    "announced",
    "held_files",
    "pending_files",
]


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
        take_over: Whether the claim of another pipeline is replaced.
    """

    def __init__(self, directory: str | Path, context: CommitterContext, *, take_over: bool = False) -> None:
        self._uid = context.uid
        self._term = context.term
        self._check_owner = context.check_owner
        self._context = context
        self._take_over = take_over
        self._place = committer_store(directory, context.pipeline, context.uid)
        self._in_use: set[str] = set()

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        """Make all files visible; refused ones are retried.

        Raises:
            StateFormatError: another version wrote a payload; nothing was done.
        """
        answers: list[Answer] = []
        for files in [pending_files(committable) for committable in committables]:
            each: list[Answer] = []
            for file in files:
                if answers or each:
                    point("commit.between")
                try:
                    each.append(self._place.publish(file))
                except OSError as error:
                    each.append(Retry(str(self._place.translate_error(error))))
                except (ConfigError, UnavailableError) as error:
                    each.append(Retry(str(error)))
            answers.append(_of_all(each))
        return answers

    def claim(self) -> None:
        """Make sure that the hidden files are this pipeline's.

        Raises:
            ConfigError: they are claimed by a pipeline with its checkpoints elsewhere, or this OS user may not look.
            UnavailableError: the directory cannot be read or written now.
        """
        ensure_claim(self._place, self._context, take_over=self._take_over)

    def keep_open(self, states: Sequence[bytes]) -> None:
        """Spare the files that a checkpoint's writers were still working on."""
        held = held_files(self._uid, states)
        mine = {file for file in held if self._place.path(file.path.rpartition("/")[2]) == file.path}
        self._in_use = {name for file in mine for name in (file.path.rpartition("/")[2], *file.also)}

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Remove open and pending files of this pipeline and operator, whichever lineage and attempt made them.

        Their names say under which owner they were made, and what a newer owner made stays.

        Raises:
            ConfigError: another pipeline claims the directory; nothing was done.
            FencedError: the pipeline has a newer owner; nothing was done.
            StateFormatError: another version wrote a payload; nothing was done.
            UnavailableError: the system refused.
        """
        self.claim()
        kept = {name for each in keep for file in pending_files(each) for name in (file.pending, *file.also)}
        kept |= self._in_use
        try:
            names = self._place.hidden()
            removed = [name for name in names if name not in kept and self._is_removable(name)]
            self._check_owner()
            point("abort.before")
            self._place.remove(removed)
        except OSError as error:
            raise self._place.translate_error(error) from error
        return len(removed)

    def _is_removable(self, name: str) -> bool:
        # Terms count the owners of one pipeline; those of the pipeline that is taken over say nothing here.
        work = parse_work(name)
        return work is not None and (work.term <= self._term or self._take_over)


def _of_all(answers: Sequence[Answer]) -> Answer:
    """The answer for a piece of work that consists of several files."""
    if CommitAnswer.UNKNOWN in answers:
        return CommitAnswer.UNKNOWN
    refused = [answer for answer in answers if isinstance(answer, Retry)]
    if refused:
        return refused[0]
    return CommitAnswer.COMMITTED if CommitAnswer.COMMITTED in answers else CommitAnswer.ALREADY_COMMITTED
