"""Savepoints: self-contained snapshots that belong to the user.

A savepoint is a directory of files and a file `_savepoint`, a checkpoint's metadata whose files are named relative to
the directory. In *canonical* form state stands in Parquet; in *native* form the files are copies of the checkpoint's
own, which is quicker to take and to open, but only for tidegate. It is written by `write_savepoint` and taken over by a start with `-s`: its files are copied
into the pipeline's own storage first, so the savepoint is never changed and can be deleted or used again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from tidegate import faults, registry
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.spi import (
    BackendContext,
    CheckpointStorage,
    Chunk,
    KeyedHandle,
    SnapshotFiles,
    StoredChunk,
)
from tidegate.backends.storage import StorageFiles, decisions_of, open_storage
from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.manifest import (
    Manifest,
    OperatorState,
    Table,
    decode,
    encode,
    files_of,
    settled_name,
)
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.checkpoint.unkeyed import export_unkeyed, import_unkeyed
from tidegate.runtime.operators.operator_list import OperatorList, read
from tidegate.runtime.options import SavepointFormat
from tidegate.runtime.working_directory import OwnedDirectory
from tidegate.twophase.ledger import described
from tidegate.twophase.process import alive

__all__ = [
    "StoredSnapshot",
    "copied",
    "is_savepoint",
    "is_snapshot",
    "open_settled",
    "open_snapshot",
    "renamed",
    "savepoint_files",
    "write_savepoint",
]

_SAVEPOINT: Final = "_savepoint"
_CHECKPOINT: Final = "_metadata"
_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """What was found in a place: the metadata, the storage it and its files are named in, and its own files there."""

    manifest: Manifest
    storage: CheckpointStorage
    names: tuple[str, ...]
    settled: bool
    """Whether all its output is visible."""


def is_savepoint(place: str) -> bool:
    """Whether a directory holds a savepoint."""
    return _SAVEPOINT in open_storage(place).blobs.list(_SAVEPOINT)


def is_snapshot(place: str) -> bool:
    """Whether a place is that of a savepoint or of a checkpoint, of whichever pipeline."""
    storage, name = _located(place)
    return name in storage.blobs.list(name)


def open_snapshot(source: str | Path) -> StoredSnapshot:
    """A checkpoint `<root>/<run>/chk-<n>`, or a savepoint by its directory.

    Raises:
        ConfigError: it is neither.
        StateCorruptError: it is damaged or missing.
        StateFormatError: it is of a newer version.
    """
    storage, name = _located(str(source))
    if name == _SAVEPOINT and not is_snapshot(str(source)):
        raise ConfigError(
            f"{str(source)!r} is not a checkpoint or savepoint; expected <root>/<run>/chk-<number> or a directory "
            f"with a file {_SAVEPOINT}"
        )
    with storage.blobs.open(name) as file:
        manifest = decode(file.read(), f"{storage.url}/{name}")
    if name == _SAVEPOINT:
        names = (name, *(table.chunk.name for table in manifest.tables))
        return StoredSnapshot(
            import_unkeyed(manifest, StorageFiles(storage.blobs, "")), storage, names, settled=True
        )
    mark = settled_name(manifest.run, manifest.checkpoint)
    settled = decisions_of(storage).read(mark) is not None
    return StoredSnapshot(manifest, storage, (name, mark), settled)


def savepoint_files(place: str) -> list[str]:
    """The files of a savepoint by their names in its directory, first the one that makes it one.

    Raises:
        ConfigError: the place holds no savepoint.
        StateCorruptError: it is damaged.
    """
    if not is_savepoint(place):
        raise ConfigError(f"{place!r} is not a savepoint; expected a directory with a file {_SAVEPOINT}")
    with open_storage(place).blobs.open(_SAVEPOINT) as file:
        manifest = decode(file.read(), f"{place}/{_SAVEPOINT}")
    tables = {table.chunk.name for table in manifest.tables}
    return [_SAVEPOINT, *sorted(files_of(manifest) | tables)]


def open_settled(source: str | Path, clock: Clock = SYSTEM_CLOCK) -> StoredSnapshot:
    """A snapshot as `open_snapshot` finds it, whose output is visible, so any pipeline can start from it.

    Where the run that wrote it is still at making it visible, that is waited for.

    Raises:
        ConfigError: it decided output that is not known to be visible; only its own pipeline can see to that.
    """
    until = clock.monotonic() + _PATIENCE_S
    while not (found := open_snapshot(source)).settled:
        if clock.monotonic() >= until or not _is_at_it(found):
            work = [work for each in found.manifest.unsettled for work in each.committables]
            raise ConfigError(
                f"{str(source)!r} is not settled: its output may not be visible; start its pipeline once to settle it; "
                f"open: {described(work) or 'only its settled mark'}"
            )
        clock.sleep(_LOOK_S)
    return replace(found, manifest=msgspec.structs.replace(found.manifest, unsettled=()))


def _is_at_it(snapshot: StoredSnapshot) -> bool:
    """Whether the run that wrote a checkpoint is still running, as far as is known."""
    record, _ = read_record(decisions_of(snapshot.storage), snapshot.manifest.pipeline)
    if record is None or record.status != "running" or record.lease.run != snapshot.manifest.run:
        return False
    return alive(record.lease) is not False


def _located(place: str) -> tuple[CheckpointStorage, str]:
    """The storage that names the files of a snapshot, and where its metadata is there."""
    bare, mark, options = place.partition("?") if "://" in place else (place, "", "")
    bare = bare.rstrip("/").removesuffix(f"/{_CHECKPOINT}")
    root, _, number = bare.rpartition("/chk-")
    root, _, run = root.rpartition("/")
    if root and number.isdigit():
        return open_storage(f"{root}{mark}{options}"), f"{run}/chk-{number}/{_CHECKPOINT}"
    return open_storage(f"{bare}{mark}{options}"), _SAVEPOINT


def write_savepoint(
    manifest: Manifest,
    files: SnapshotFiles,
    place: str | Path,
    backend: str,
    format_type: SavepointFormat = "canonical",
    *,
    now_ms: int | None = None,
    mode: int | None = None,
) -> None:
    """Write what a checkpoint holds as a savepoint; for the canonical form `backend` opens its state meanwhile.

    The canonical form leaves out what has expired by `now_ms`, of states that ask for it. `mode` is that of new
    directories, as of `open_storage`.

    What makes the directory a savepoint is written last: a crash leaves files without effect.

    Raises:
        ConfigError: the directory holds a savepoint already, or the checkpoint has overtaken records.
        StateCorruptError: a file of the checkpoint is missing or damaged.
        UnavailableError: the storage did not take a file.
    """
    if is_savepoint(str(place)):
        raise ConfigError(
            f"{str(place)!r} already holds a savepoint; give a directory that does not exist yet"
        )
    blobs = open_storage(place, mode).blobs
    stateful = [operator for operator in manifest.operators if not operator.stateless]
    tables: tuple[Table, ...] = ()
    if format_type == "native":
        operators = copied(stateful, files, StorageFiles(blobs, "native", inline_threshold=0))
    else:
        _refuse_in_flight(manifest)
        keyed, unkeyed = StorageFiles(blobs, "keyed"), StorageFiles(blobs, "unkeyed")
        apart = [
            export_unkeyed(_canonical(each, files, keyed, backend, now_ms), unkeyed) for each in stateful
        ]
        operators = tuple(operator for operator, _ in apart)
        tables = tuple(table for _, each in apart for table in each)
    faults.point("savepoint.before-complete")
    blobs.put(_SAVEPOINT, encode(msgspec.structs.replace(manifest, operators=operators, tables=tables)))


def copied(
    operators: Iterable[OperatorState], source: SnapshotFiles, target: SnapshotFiles
) -> tuple[OperatorState, ...]:
    """The operators of a snapshot with all their files in `target`.

    Raises:
        StateCorruptError: a file of the snapshot is missing or damaged.
        UnavailableError: the storage did not take a file.
    """
    return renamed(operators, lambda chunk: target.store(source.fetch(chunk)))


def renamed(
    operators: Iterable[OperatorState], moved: Callable[[StoredChunk], Chunk]
) -> tuple[OperatorState, ...]:
    """The operators with every file where `moved` says that it is now; each is asked for once."""

    @cache  # subtasks that were one before a rescaling name the same files
    def place(chunk: Chunk) -> Chunk:
        return moved(chunk) if isinstance(chunk, StoredChunk) else chunk

    def anew(handle: KeyedHandle) -> KeyedHandle:
        base, journal = handle.base, handle.journal
        if base is not None:
            files = tuple((name, place(chunk)) for name, chunk in base.files)
            base = msgspec.structs.replace(base, files=files)
        segments = tuple(map(place, handle.segments))
        return KeyedHandle(
            handle.key_groups, base, segments, journal and place(journal), handle.dropped_changes
        )

    def anew_list(held: OperatorList) -> OperatorList:
        pieces = held.pieces and tuple(
            msgspec.structs.replace(piece, chunk=place(piece.chunk)) for piece in held.pieces
        )
        return msgspec.structs.replace(held, pieces=pieces)

    return tuple(
        msgspec.structs.replace(
            operator,
            keyed=tuple(map(anew, operator.keyed)),
            lists=tuple(tuple(map(anew_list, lists)) for lists in operator.lists),
            in_flight=tuple(map(place, operator.in_flight)),
        )
        for operator in operators
    )


def _refuse_in_flight(manifest: Manifest) -> None:
    overtaken = next((operator.uid for operator in manifest.operators if operator.in_flight), None)
    if overtaken is not None:
        raise ConfigError(
            f"checkpoint {manifest.checkpoint} holds in-flight records of operator {overtaken!r}, which a canonical "
            "savepoint cannot hold; start the program from the checkpoint and take a savepoint of the new run"
        )


def _canonical(
    operator: OperatorState, files: SnapshotFiles, target: StorageFiles, backend: str, now_ms: int | None
) -> OperatorState:
    lists = tuple(tuple(read(held, files) for held in lists) for lists in operator.lists)
    if not operator.keyed:
        return msgspec.structs.replace(operator, lists=lists)
    opened_by = registry.load("tidegate.backends", backend)()
    with OwnedDirectory("savepoint") as scratch:
        context = BackendContext(scratch, files, {})
        parts, groups = operator.parallelism, operator.max_parallelism
        keyed = write_keyed(
            operator.uid, operator.keyed, groups, opened_by, context, target, parts=parts, now_ms=now_ms
        )
    return msgspec.structs.replace(operator, keyed=keyed, lists=lists)
