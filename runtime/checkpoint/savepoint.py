"""Savepoints: checkpoints that stand alone and belong to the user.

A savepoint is a directory of files and a file `_savepoint`, a checkpoint's metadata whose files are named relative to
the directory. In *canonical* form state stands in Parquet; in *native* form the files are copies of the checkpoint's
own, which is quicker to take and to open, but only for tidegate. It is written by `write_savepoint` and taken over by a start with `-s`: its files are copied
into the pipeline's own storage first, so the savepoint is never changed and can be deleted or used again at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias

import msgspec

from tidegate import faults, registry
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.spi import BackendContext, Blobs, Chunk, KeyedHandle, SnapshotFiles, StoredChunk
from tidegate.backends.storage import StorageFiles, decisions_of, open_storage
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, decode, encode, settled_name

__all__ = ["SavepointFormat", "Snapshot", "copied", "is_savepoint", "open_snapshot", "write_savepoint"]

SavepointFormat: TypeAlias = Literal["canonical", "native"]

_SAVEPOINT: Final = "_savepoint"
_CHECKPOINT: Final = "_metadata"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was found in a place: the metadata, the files it names, and whether all its output is visible."""

    manifest: Manifest
    blobs: Blobs
    settled: bool


def is_savepoint(place: str) -> bool:
    """Whether a directory holds a savepoint."""
    return _SAVEPOINT in open_storage(place).blobs.list(_SAVEPOINT)


def open_snapshot(source: str | Path) -> Snapshot:
    """A checkpoint `<root>/<run>/chk-<n>`, or a savepoint by its directory.

    Raises:
        ConfigError: it is neither.
        StateCorruptError: it is damaged or gone.
        StateFormatError: it is of a newer version.
    """
    place = str(source).rstrip("/").removesuffix(f"/{_CHECKPOINT}")
    root, _, name = place.rpartition("/chk-")
    root, _, run = root.rpartition("/")
    if not root or not name.isdigit():
        if not is_savepoint(place):
            raise ConfigError(
                f"{place!r} is no checkpoint and no savepoint; expected <root>/<run>/chk-<number> or a directory "
                f"that holds {_SAVEPOINT}"
            )
        blobs = open_storage(place).blobs
        return Snapshot(_load(blobs, _SAVEPOINT, place), blobs, settled=True)
    storage = open_storage(root)
    manifest = _load(storage.blobs, f"{run}/chk-{name}/{_CHECKPOINT}", root)
    mark = settled_name(manifest.run, manifest.checkpoint)
    settled = decisions_of(storage).read(mark) is not None
    return Snapshot(manifest, storage.blobs, settled)


def _load(blobs: Blobs, name: str, root: str) -> Manifest:
    with blobs.open(name) as file:
        return decode(file.read(), f"{root}/{name}")


def write_savepoint(
    manifest: Manifest,
    files: SnapshotFiles,
    place: str | Path,
    backend: str,
    format_type: SavepointFormat = "canonical",
) -> None:
    """Write what a checkpoint holds as a savepoint; for the canonical form `backend` opens its state meanwhile.

    What makes the directory a savepoint is written last: a crash leaves files that nobody reads.

    Raises:
        ConfigError: the directory holds a savepoint already.
        StateCorruptError: a file of the checkpoint is missing or damaged.
        UnavailableError: the storage did not take a file.
    """
    if is_savepoint(str(place)):
        raise ConfigError(
            f"{str(place)!r} holds a savepoint already; give a directory that does not exist yet"
        )
    blobs = open_storage(place).blobs
    if format_type == "native":
        operators = copied(manifest.operators, files, StorageFiles(blobs, "native"))
    else:
        target = StorageFiles(blobs, "keyed")
        operators = tuple(_canonical(operator, files, target, backend) for operator in manifest.operators)
    faults.point("savepoint.before-complete")
    blobs.put(_SAVEPOINT, encode(msgspec.structs.replace(manifest, operators=operators)))


def copied(
    operators: Iterable[OperatorState], source: SnapshotFiles, target: SnapshotFiles
) -> tuple[OperatorState, ...]:
    """The operators of a snapshot with all their files in `target`.

    Raises:
        StateCorruptError: a file of the snapshot is missing or damaged.
        UnavailableError: the storage did not take a file.
    """

    @cache  # subtasks that were one before a rescaling name the same files
    def copy(chunk: Chunk) -> Chunk:
        return target.store(source.fetch(chunk)) if isinstance(chunk, StoredChunk) else chunk

    def moved(handle: KeyedHandle) -> KeyedHandle:
        base = handle.base
        if base is not None:
            base = msgspec.structs.replace(
                base, files=tuple((name, copy(chunk)) for name, chunk in base.files)
            )
        return KeyedHandle(handle.key_groups, base, tuple(map(copy, handle.segments)))

    return tuple(
        msgspec.structs.replace(operator, keyed=tuple(map(moved, operator.keyed))) for operator in operators
    )


def _canonical(
    operator: OperatorState, files: SnapshotFiles, target: StorageFiles, backend: str
) -> OperatorState:
    if not operator.keyed:
        return operator
    opened_by = registry.load("tidegate.backends", backend)()
    with TemporaryDirectory(prefix="tidegate-savepoint-") as scratch:
        context = BackendContext(Path(scratch), files, {})
        parts, groups = operator.parallelism, operator.max_parallelism
        keyed = write_keyed(operator.uid, operator.keyed, groups, opened_by, context, target, parts=parts)
    return msgspec.structs.replace(operator, keyed=keyed)
