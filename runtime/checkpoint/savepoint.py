"""Savepoints: checkpoints that stand alone, in canonical form, and belong to the user.

A savepoint is a directory of Parquet files and a file `_savepoint`, a checkpoint's metadata whose files are named
relative to the directory. It is written by `write_savepoint` and taken over by a start with `-s`: its files are copied
into the pipeline's own storage first, so the savepoint is never changed and can be deleted or used again at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tidegate import registry
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.spi import BackendContext, Blobs, Chunk, KeyedHandle, SnapshotFiles, StoredChunk
from tidegate.backends.storage import StorageFiles, open_storage
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, decode, encode, settled_name

__all__ = ["Snapshot", "copied", "is_savepoint", "open_snapshot", "write_savepoint"]

_SAVEPOINT = "_savepoint"
_CHECKPOINT = "_metadata"


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
    settled = storage.decisions is not None and storage.decisions.read(mark) is not None
    return Snapshot(manifest, storage.blobs, settled)


def _load(blobs: Blobs, name: str, root: str) -> Manifest:
    with blobs.open(name) as file:
        return decode(file.read(), f"{root}/{name}")


def write_savepoint(manifest: Manifest, files: SnapshotFiles, place: str | Path, backend: str) -> None:
    """Write what a checkpoint holds as a savepoint; `backend` opens its state meanwhile.

    What makes the directory a savepoint is written last: a crash leaves files that nobody reads.

    Raises:
        ConfigError: the directory holds a savepoint already.
    """
    if is_savepoint(str(place)):
        raise ConfigError(
            f"{str(place)!r} holds a savepoint already; give a directory that does not exist yet"
        )
    blobs = open_storage(place).blobs
    target = StorageFiles(blobs, "keyed")
    opened_by = registry.load("tidegate.backends", backend)()
    operators: list[OperatorState] = []
    for operator in manifest.operators:
        with TemporaryDirectory(prefix="tidegate-savepoint-") as scratch:
            context = BackendContext(Path(scratch), files, {})
            keyed = operator.keyed and write_keyed(
                operator.uid,
                operator.keyed,
                operator.max_parallelism,
                opened_by,
                context,
                target,
                parts=operator.parallelism,
            )
        operators.append(msgspec.structs.replace(operator, keyed=keyed))
    blobs.put(_SAVEPOINT, encode(msgspec.structs.replace(manifest, operators=tuple(operators))))


def copied(
    operators: Iterable[OperatorState], source: Blobs, target: SnapshotFiles
) -> tuple[OperatorState, ...]:
    """The operators of a savepoint with all their files in `target`.

    Raises:
        StateCorruptError: a file of the savepoint is missing or damaged.
    """
    files = StorageFiles(source, "")

    def copy(chunk: Chunk) -> Chunk:
        return target.store(files.fetch(chunk)) if isinstance(chunk, StoredChunk) else chunk

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
