"""SPI of state backends, timer queues and checkpoint storages.

What a user sees of state (kinds, namespaces, cache, log, snapshots) is written once in `tidegate.backends.keyed`.
A backend is only a materialisation: a sorted map from address to bytes that can be cut at a barrier. An *address*
is opaque here; it starts with the two bytes of its key group and the two of its state's number, big-endian, and sorts
as bytes. The work is split between a *description* (`Backend`, `CheckpointStorage`: frozen, picklable, no I/O when
made) and the *workers* it opens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, TypeAlias, runtime_checkable

import msgspec

from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

__all__ = [
    "Address",
    "Backend",
    "BackendContext",
    "BaseHandle",
    "BaseReader",
    "Blobs",
    "Bounded",
    "Buffered",
    "CheckpointStorage",
    "Chunk",
    "Cut",
    "Decision",
    "Decisions",
    "Entry",
    "Excess",
    "InlineChunk",
    "KeyedHandle",
    "Materialisation",
    "MemoryLimit",
    "Resumable",
    "SnapshotFiles",
    "StoredChunk",
    "SupportsMemoryLimit",
    "SupportsMetrics",
    "SupportsMode",
    "Timer",
    "TimerQueue",
]

Address: TypeAlias = bytes
Entry: TypeAlias = tuple[Address, bytes | None]
"""An address and its newest bytes; None says that the address was removed."""


class StoredChunk(msgspec.Struct, frozen=True, tag="stored"):
    """Bytes in a file of the checkpoint storage, checked against `checksum` (xxh3-64) before use."""

    name: str
    size: int
    checksum: int


class InlineChunk(msgspec.Struct, frozen=True, tag="inline"):
    """Bytes small enough to be inline in the metadata."""

    data: bytes


Chunk: TypeAlias = StoredChunk | InlineChunk


class BaseHandle(msgspec.Struct, frozen=True):
    """A complete materialisation: the backend that wrote it, its format version, its files by local name."""

    backend: str
    version: int
    files: tuple[tuple[str, Chunk], ...]


class KeyedHandle(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keyed state of one operator for a range of key groups: a base and the log segments after it."""

    key_groups: KeyGroupRange
    base: BaseHandle | None
    segments: tuple[Chunk, ...]
    journal: Chunk | None = None
    """How its state came to be since the checkpoint before, change by change, where that is wanted."""
    dropped_changes: int = 0
    """The number of changes that were dropped instead, because too many checkpoints before were declined."""

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """Everything the handle refers to."""
        files = [chunk for _, chunk in self.base.files] if self.base is not None else []
        return (*files, *self.segments, *((self.journal,) if self.journal is not None else ()))


class SnapshotFiles(Protocol):
    """Where snapshots are written to and read from; checksums and small inline chunks are its business."""

    def store(self, data: bytes | Path) -> Chunk:
        """Make bytes or a local file durable under a new name; safe to call from any thread."""
        ...

    def fetch(self, chunk: Chunk) -> bytes:
        """The bytes of `chunk`.

        Raises:
            StateCorruptError: the file is gone, truncated or differs from its checksum.
        """
        ...


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What a materialisation is opened with.

    `directory` is private to it, exists, is empty and is deleted by its owner after `close`.
    `options` are the backend's own options as plain values. `memory_bytes` is what it may hold of state in memory at
    once, if anything limits that; a backend that keeps all state in memory cannot follow it.
    """

    directory: Path
    files: SnapshotFiles
    options: Mapping[str, Any]
    memory_bytes: int | None = None
    versions: Path | None = None
    """Where its state is kept for the next execution, if it lives for one epoch only."""


class Cut(ABC):
    """The content of a materialisation at one barrier, while later epochs already change it."""

    @abstractmethod
    def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
        """Make the cut durable and say where it is.

        Called once per cut, from a background thread; may block for as long as the upload takes, over many
        checkpoints. `confirmed` is the base of a decided checkpoint, pinned until the new base is part of one: its
        files need no second upload, no other file may be assumed to exist. On return every file is durable. A crash before the
        return leaves unreferenced garbage; calling it on a new cut after that is safe.

        Raises:
            UnavailableError: the storage rejected a file; the checkpoint is declined, the job continues.
        """

    @abstractmethod
    def release(self) -> None:
        """Drop local resources; called once, after `publish` or instead of it. Idempotent."""


class Materialisation(ABC):
    """A sorted map from address to bytes, owned by one subtask and called only by its thread.

    A crash at any point loses it entirely: it is rebuilt from a `KeyedHandle`, so nothing here needs to be durable.
    """

    @abstractmethod
    def get_many(self, addresses: Sequence[Address]) -> list[bytes | None]:
        """The bytes of each address in the same order, None where there are none.

        Called at most once per batch for the keys that are not cached; may read a local disk, never the network.
        """

    @abstractmethod
    def apply(self, entries: Iterable[Entry]) -> None:
        """Write entries in order; None removes. Called at barriers and on eviction.

        On return `get_many` and `scan` see the entries. Applying the same entries twice changes nothing.

        Raises:
            StateFormatError: an address or value is larger than this backend can hold.
            UnavailableError: the local disk did not take them; the subtask fails and is restored.
        """

    @abstractmethod
    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        """Entries with first <= address < last, ascending or in reverse, as they are when the iteration starts.

        With `limit`, the first so many of them, at a cost that does not depend on how many more there are. May read a
        local disk. The caller may `apply` while iterating.
        """

    @abstractmethod
    def cut(self, checkpoint: CheckpointId) -> Cut:
        """Freeze the present content; called at a barrier, after `apply` of everything dirty.

        Must be quick: the time may depend on what changed, not on how much there is.

        Raises:
            UnavailableError: the local disk cannot be written; the checkpoint is declined, the job continues.
        """

    def close(self) -> None:  # noqa: B027
        """Release local resources; called once, also after an error. Nothing is called afterwards."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A state that has outgrown its materialisation: its number, its size and the limit in bytes, and the ways on."""

    state: int
    size: int
    limit: int
    remedy: str


@runtime_checkable
class Bounded(Protocol):
    """An ability of a materialisation: it holds no more than some size, and a checkpoint of more is declined."""

    def excess(self) -> Excess | None:
        """A state that is too large, None if there is none.

        Asked by the subtask's thread at each barrier, after `apply` of everything dirty. Must be quick.
        """
        ...


@runtime_checkable
class SupportsMetrics(Protocol):
    """An ability of a materialisation: it has figures that users want to see."""

    def metrics(self) -> Mapping[str, Callable[[], int | float]]:
        """Gauges by name; reported as metrics `<operator uid>.<subtask>.<backend>.<name>`.

        Asked once, when it was opened. The subtask's thread calls each function several times a second, so they must be
        quick; and once more after `close`, where they tell the last figure.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Memory limits in bytes outside a materialisation: for rows cached as objects, and for the log."""

    rows: int
    log: int


@runtime_checkable
class SupportsMemoryLimit(Protocol):
    """A materialisation that may be larger than memory and limits the memory used for its rows and log."""

    @property
    def memory_limit(self) -> MemoryLimit:
        """Read once after opening. Data beyond the limit is written to the local disk or evicted."""
        ...


class BaseReader(ABC):
    """Reads bases of one kind; found by the `name` in their handles through the entry points `tidegate.backends`."""

    name: ClassVar[str]

    @abstractmethod
    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """All entries of a base: how another backend, a savepoint or a tool takes them over.

        Called while state is restored, by the thread that does it; may block on storage. Ascending, unless a base
        was dealt to other key groups. Reading changes nothing, so it can be repeated after a crash.

        Raises:
            StateCorruptError: a file of the base is missing or damaged.
            StateFormatError: the base is of a newer version.
        """


class Backend(BaseReader):
    """Describes a kind of materialisation; found by `name` through the entry points `tidegate.backends`.

    Example:
        >>> from tidegate.backends.heap import HeapBackend
        >>> HeapBackend().name
        'heap'
    """

    @abstractmethod
    def open(
        self, base: BaseHandle | None, key_groups: KeyGroupRange, context: BackendContext
    ) -> Materialisation:
        """A materialisation that holds the entries of `base` within `key_groups`, or nothing without a base.

        Called by the subtask's thread before the first record; may block on storage. `base` was written by this
        backend in any version up to now.

        Raises:
            StateCorruptError: a file of the base is missing or damaged.
            StateFormatError: the base is of a newer version.
        """


@runtime_checkable
class Resumable(Protocol):
    """An ability of a backend: a materialisation leaves all of its entries in its directory when it is closed, and
    another one can continue from there without reading the storage."""

    def resume(self, left: Path, base: BaseHandle | None, context: BackendContext) -> Materialisation:
        """A materialisation with the entries that one had when it was closed; `left` is its directory.

        Called instead of `open`, where nothing was cut away from the key groups since. `base` is the one that
        checkpoints refer to; `left` held its entries at some moment. Others may resume from `left` at the same time, so
        nothing in it may change; it may disappear at any time.

        Raises:
            TidegateError: it is not there any more, or damaged; the caller opens `base` instead.
            OSError: likewise.
        """
        ...


class Timer(msgspec.Struct, frozen=True, order=True, gc=False):
    """A moment at which a key of an operator wants to be called."""

    time: int
    key: Any
    namespace: bytes = b""


class TimerQueue(ABC):
    """The timers of one operator and time service, in state: they survive with the keys they belong to.

    Called by the subtask's thread alone. Registering the same timer again changes nothing. Changes become
    durable with the next checkpoint; a crash goes back to the timers of the restored one.
    """

    @abstractmethod
    def register(self, timer: Timer) -> None:
        """Remember a timer; called from user functions, must not block."""

    @abstractmethod
    def delete(self, timer: Timer) -> None:
        """Remove a timer; a missing one is ignored. Must not block."""

    @abstractmethod
    def due(self, until: int) -> Iterator[Timer]:
        """Remove and return the timers with time <= until, by time.

        Called when time moves on. Timers registered during the iteration and due by `until` are returned by it
        too. May read local state.
        """

    @abstractmethod
    def next_time(self) -> int | None:
        """The earliest time anything is due, None without timers. Called between batches; must not block."""


class Decision(msgspec.Struct, frozen=True):
    """The content of a decided name and the tag that a swap must show."""

    tag: str
    data: bytes


class Blobs(ABC):
    """Files of a checkpoint storage, by name relative to its root; names use `/`. Safe to call from any thread.

    All methods may block and raise `UnavailableError` when the storage does not answer.
    """

    @abstractmethod
    def put(self, name: str, source: bytes | Path) -> None:
        """Write a file. On return it is durable and complete; after a crash in between it does not exist.

        Writing a name again replaces it; the framework never writes different bytes under one name.
        """

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open for reading.

        Raises:
            StateCorruptError: the file does not exist.
        """

    @abstractmethod
    def list(self, prefix: str) -> list[str]:
        """Names of all complete files that start with `prefix`, sorted."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Remove files; missing ones are ignored, so a repeat after a crash is safe."""

    def reserve(self, prefix: str) -> None:  # noqa: B027
        """Make a place below `prefix` for files of others, on storages where an empty place is something."""

    def forget_unfinished(self, prefix: str) -> None:  # noqa: B027
        """Remove what writers that died left of incomplete files, if anything ever stays of them.

        Called when no process writes below `prefix` any more.
        """


class Decisions(ABC):
    """Small records that change atomically, for all processes and hosts that share the storage.

    Safe to call from any thread; all methods may block and raise `UnavailableError`, after which the outcome of a
    `create` or `swap` is told by `read`.
    """

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write `name` unless it exists. True: this call created it and it is durable. False: it exists."""

    @abstractmethod
    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        """Replace `name` if its tag is still `old_tag` (None: if it does not exist).

        True: durable, and `read` of any process gives `data` with a new tag. False: another process swapped first.
        """

    @abstractmethod
    def read(self, name: str) -> Decision | None:
        """The newest content, or None if `name` was never written."""


@runtime_checkable
class Buffered(Protocol):
    """An ability of a checkpoint storage: it writes files in pieces, and lets others say how large those are."""

    def buffered(self, size: int) -> CheckpointStorage:
        """The same storage, written to in pieces of `size` bytes. Called once per run, at start; does no I/O."""
        ...


@runtime_checkable
class SupportsMode(Protocol):
    """An ability of a checkpoint storage: it creates directories, with a configurable mode."""

    def with_mode(self, mode: int) -> CheckpointStorage:
        """The same storage, where new directories get exactly `mode`, and new files what it allows but to execute.

        Called once per run, at start, if `state.checkpoints.dir-mode` is set; does no I/O. Without it, directories are
        0700 and files 0600. What exists keeps its mode.
        """
        ...


class CheckpointStorage(ABC):
    """Describes where checkpoints live; made from a URL by the entry point `tidegate.storages` of its scheme.

    One with options `tidegate.components.SupportsOptions`: it asks for those of `storage.<scheme>`, and its `url` says them
    from then on, as other processes open the storage by it.

    `decisions` is None for a storage that cannot decide atomically: one writer only, said loudly at start.
    """

    url: str

    @property
    @abstractmethod
    def blobs(self) -> Blobs:
        """The files; opened on first use."""

    @property
    @abstractmethod
    def decisions(self) -> Decisions | None:
        """The decisions; opened on first use."""
