"""RocksDB state backend: state on the local disk, larger than memory; a base consists of the database's own files.

Data files never change once written, so a cut is a directory of hard links and a base uploads only the files that
the confirmed base does not hold already.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import ClassVar, Final

from tidegate.backends.keyed.address import range_bounds
from tidegate.backends.rocksdb._client import RocksStore
from tidegate.backends.rocksdb.late import LateWrites
from tidegate.backends.rocksdb.memory import Shares, default_memory, shares
from tidegate.backends.rocksdb.options import RocksDBOptions
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    BaseHandle,
    Chunk,
    Cut,
    Entry,
    Materialisation,
    MemoryLimit,
    SnapshotFiles,
)
from tidegate.errors import StateFormatError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.options import Layer, load

__all__ = ["RocksDBBackend", "RocksDBMaterialisation"]

FORMAT_VERSION: Final = 1

_DATABASE: Final = "db"
_DATA: Final = ".sst"
_NEEDED: Final = (_DATA, "CURRENT", "rocksdict-config.json")
_MANIFEST: Final = "MANIFEST-"
_IDENTITY: Final = "IDENTITY"
"""Not needed, but a database that has none writes one, and waits for the disk."""
_ABOVE_ALL: Final = b"\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class RocksDBBackend(Backend):
    """State in RocksDB on the local disk.

    Example:
        >>> RocksDBBackend().name
        'rocksdb'
    """

    name: ClassVar[str] = "rocksdb"

    def open(
        self, base: BaseHandle | None, key_groups: KeyGroupRange, context: BackendContext
    ) -> RocksDBMaterialisation:
        """The base's files, with the other key groups deleted."""
        if base is not None:
            _download(base, context)
        materialisation = _opened(base, context)
        materialisation.restrict(key_groups)
        return materialisation

    def resume(self, left: Path, base: BaseHandle | None, context: BackendContext) -> RocksDBMaterialisation:
        """The files that a database left, as hard links: none of them is written to again."""
        _link(left / _DATABASE, context.directory / _DATABASE)
        return _opened(base, context)

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """The base's entries, through a database of their own."""
        _download(base, context)
        store = _store(context)
        try:
            yield from store.items(b"", _ABOVE_ALL)
        finally:
            store.close()


class RocksDBMaterialisation(Materialisation):
    """One database; cuts are stored in the same directory, so that hard links work."""

    def __init__(self, store: RocksStore, directory: Path, base: BaseHandle | None, memory: Shares) -> None:
        self.memory_limit = MemoryLimit(memory.rows, memory.log)
        self._store = store
        self._late = LateWrites(store, memory.late)
        self._directory = directory
        self._uploaded = set(base.files) if base is not None else set()
        self._numbers = count()

    def restrict(self, key_groups: KeyGroupRange) -> None:
        """Delete what lies outside of a key-group range."""
        first, last = range_bounds(key_groups)
        for start, end in ((b"", first), (last, _ABOVE_ALL)):
            # A range deletion is a write of its own, so none where there is nothing to delete.
            if next(self._store.items(start, end), None) is not None:
                self._store.delete_range(start, end)

    def get_many(self, addresses: Sequence[Address]) -> list[bytes | None]:
        """The bytes of each address, from memory or the local disk."""
        return self._late.get_many(addresses)

    def apply(self, entries: Iterable[Entry]) -> None:
        """Keep entries for the database, which gets them when they are too many, scanned or cut."""
        self._late.write(entries)

    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        """Entries of a range, of the moment of the call."""
        self._late.flush()
        return islice(self._store.items(first, last, reverse=reverse), limit)

    def cut(self, checkpoint: CheckpointId) -> Cut:
        """Flush what changed and hard-link all files."""
        self._late.flush()
        directory = self._directory / f"cut-{checkpoint}-{next(self._numbers)}"
        self._store.checkpoint(directory)
        return _FileCut(directory, self._uploaded)

    def metrics(self) -> Mapping[str, Callable[[], int]]:
        """Gauges of the metrics enabled by `state.backend.rocksdb.metrics.*`."""
        return self._store.metrics()

    def close(self) -> None:
        """Close the database; flush it first if a later execution continues from its files."""
        try:
            if self._store.brief:
                self._late.flush()
        finally:
            self._store.close()


class _FileCut(Cut):
    """Hard links to the files of one moment."""

    def __init__(self, directory: Path, uploaded: set[tuple[str, Chunk]]) -> None:
        self._directory = directory
        self._uploaded = uploaded

    def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
        """Upload the files that `confirmed` does not hold."""
        pinned = dict(confirmed.files) if confirmed is not None else {}
        published: list[tuple[str, Chunk]] = []
        for path in sorted(filter(_is_needed, self._directory.iterdir())):
            chunk = pinned.get(path.name)
            # The same name is the same file only if this database downloaded or uploaded that very chunk.
            if chunk is None or path.suffix != _DATA or (path.name, chunk) not in self._uploaded:
                chunk = files.store(path)
            published.append((path.name, chunk))
        self._uploaded.update(pair for pair in published if pair[0].endswith(_DATA))
        return BaseHandle(RocksDBBackend.name, FORMAT_VERSION, tuple(published))

    def release(self) -> None:
        """Remove the links."""
        shutil.rmtree(self._directory, ignore_errors=True)


def _opened(base: BaseHandle | None, context: BackendContext) -> RocksDBMaterialisation:
    options = _options_of(context)
    memory = shares(options.memory(context.memory_bytes) or default_memory())
    return RocksDBMaterialisation(_store(context), context.directory, base, memory)


def _link(left: Path, directory: Path) -> None:
    """The files a database consists of: those that never change as hard links, the others as copies."""
    directory.mkdir()
    for path in left.iterdir():
        if not (_is_needed(path) or path.name == _IDENTITY):
            continue
        if path.suffix == _DATA:
            (directory / path.name).hardlink_to(path)
        else:
            shutil.copyfile(path, directory / path.name)


def _is_needed(path: Path) -> bool:
    return path.name.endswith(_NEEDED) or path.name.startswith(_MANIFEST)


def _options_of(context: BackendContext) -> RocksDBOptions:
    return load(RocksDBOptions, Layer("backend options", context.options))


def _store(context: BackendContext) -> RocksStore:
    options = _options_of(context)
    memory_bytes = options.memory(context.memory_bytes)
    return RocksStore(
        context.directory / _DATABASE, options, memory_bytes, brief=context.versions is not None
    )


def _download(base: BaseHandle, context: BackendContext) -> None:
    if base.version > FORMAT_VERSION:
        raise StateFormatError(
            f"base of backend {base.backend!r}: version {base.version} is newer than supported {FORMAT_VERSION}; "
            "upgrade tidegate or restore an older checkpoint"
        )
    directory = context.directory / _DATABASE
    directory.mkdir()
    for name, chunk in base.files:
        data = context.files.fetch(chunk)
        try:
            (directory / name).write_bytes(data)
        except OSError as error:
            raise UnavailableError(
                f"cannot write {directory / name} to the local disk: {error.strerror}; free space there"
            ) from error
