"""Result files of a batch job: one file for each task and exchange, read by the downstream tasks.

A file gets its final name when its task has finished, so a file with that name is complete. It outlives the process
that wrote it: a downstream task that restarts reads the same files, and the tasks that wrote them do not run again. If a
file is missing or damaged, its reader fails, and the next attempt of the job runs the task that wrote it again.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import xxhash

from tidegate.clock import Clock
from tidegate.elements import Batch, BatchCursor, Control, Element, EndOfInput, Idle, Watermark
from tidegate.errors import UnavailableError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from tidegate.runtime.graph.transformations import NEVER_MS
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.exchange import Buffer, Channel, ChannelId, RecordWriter
from tidegate.runtime.task.frames import EdgeCodec, Frame

__all__ = ["ResultGate", "Results"]

_TRAILER: Final = struct.Struct(">QI")
"""The last bytes of a file: the offset of the index, and its checksum."""
_MOST: Final = 256
"""Records per written block; while a block is read, it is in memory three times."""
_CREDIT: Final = Credit(2 * _MOST)
_FRAMES: Final = msgspec.msgpack.Decoder(Frame)


class _Index(msgspec.Struct, frozen=True):
    """Offsets, lengths and checksums of the batches for each receiver."""

    batches: dict[int, list[tuple[int, int, int]]]
    reusable: bool


_INDEXES: Final = msgspec.msgpack.Decoder(_Index)


@dataclass(frozen=True, slots=True)
class Results:
    """The result files of a run, in directories that all workers can access."""

    directories: tuple[Path, ...]

    def batches(self, edge: JobEdge, source: int, target: int) -> Iterator[Batch]:
        """The batches from one subtask to another, in the order written.

        Raises:
            UnavailableError: the file is missing or damaged; it is deleted, so the next attempt writes it again.
        """
        path, wire = self._path(edge, source), EdgeCodec(edge)
        with self._readable(path, edge, source), path.open("rb") as file:
            for start, length, checksum in _index(file).batches.get(target, ()):
                file.seek(start)
                yield _batch(wire, file.read(length), checksum)

    def finished(self, graph: JobGraph) -> frozenset[Subtask]:
        """The subtasks whose results are complete and that need not run again."""
        return frozenset(
            Subtask(vertex.id, index)
            for vertex in graph.vertices.values()
            for index in range(vertex.parallelism)
            if vertex.outputs and all(self._reusable(edge, index) for edge in vertex.outputs)
        )

    def keep_only(self, vertices: Iterable[JobVertex], subtasks: frozenset[Subtask]) -> None:
        """Delete the results of all other subtasks."""
        kept = {
            self._path(edge, index)
            for vertex in vertices
            for edge in vertex.outputs
            for index in range(vertex.parallelism)
            if Subtask(vertex.id, index) in subtasks
        }
        for directory in self.directories:
            for path in set(directory.iterdir()) - kept:
                path.unlink()

    def writer(self, edge: JobEdge, source: int) -> _Writer:
        """A writer for the output of a subtask over an edge."""
        return _Writer(self._path(edge, source), edge, source)

    def _path(self, edge: JobEdge, source: int) -> Path:
        directory = self.directories[source % len(self.directories)]
        return directory / f"{xxhash.xxh3_128_hexdigest(edge.name.encode())}-{source}"

    def _reusable(self, edge: JobEdge, source: int) -> bool:
        try:
            with self._path(edge, source).open("rb") as file:
                return _index(file).reusable
        except (OSError, ValueError):
            return False

    @contextmanager
    def _readable(self, path: Path, edge: JobEdge, source: int) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise UnavailableError(
                f"the result of {Subtask(edge.source, source)} cannot be read: {error}; its task runs again in the "
                f"next attempt; if this is repeated, check the disk of {path.parent}"
            ) from error


class _Writer:
    """Writes a file, which gets its final name in `finish`."""

    def __init__(self, path: Path, edge: JobEdge, source: int) -> None:
        self._path = path
        self._part = path.with_suffix(".part")
        self._edge = edge
        self._source = source
        self._wire = EdgeCodec(edge)
        self._batches: dict[int, list[tuple[int, int, int]]] = {}
        self._size = 0
        with self._on_disk():
            self._file = self._part.open("wb")

    def append(self, target: int, batch: Batch) -> None:
        """Write a batch for a subtask.

        Raises:
            RecordError: a value is not of its declared type.
            UnavailableError: the batch cannot be written to disk.
        """
        frame = self._wire.encode(ChannelId(self._edge.name, self._source, target), batch)
        with self._on_disk():
            self._file.write(frame)
        self._batches.setdefault(target, []).append((self._size, len(frame), zlib.crc32(frame)))
        self._size += len(frame)

    def finish(self, *, reusable: bool) -> None:
        """Complete the file; from now on it can be read.

        Raises:
            UnavailableError: the file cannot be written to disk.
        """
        index = msgspec.msgpack.encode(_Index(self._batches, reusable))
        with self._on_disk():
            self._file.write(index + _TRAILER.pack(self._size, zlib.crc32(index)))
            self._file.close()
            self._part.replace(self._path)

    def close(self) -> None:
        """Discard an unfinished file."""
        with suppress(OSError):
            self._file.close()

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(
                f"records cannot be written to {self._path.parent}: {error}; free space there, or set "
                "taskmanager.state.local.root-dirs or TMPDIR to a larger disk"
            ) from error


class ResultGate(RecordWriter):
    """Writes the output of an edge to a file, and notifies the receivers when it is complete.

    Watermarks and idleness are not sent: a receiver starts when its whole input is complete.
    """

    def __init__(
        self,
        index: int,
        channels: Mapping[int, Channel],
        writer: _Writer,
        clock: Clock,
        reusable: Callable[[], bool],
    ) -> None:
        super().__init__(writer._edge, index, channels)
        self._writer = writer
        self._reusable = reusable
        self._shares = {target: Buffer(_Share(writer, target), NEVER_MS, clock) for target in channels}

    def emit(self, batch: Batch) -> None:
        """Write a batch, distributed to the receivers."""
        for target, share in self._route(batch):
            self._shares[target].send(share)

    def broadcast(self, element: Control) -> None:
        """Send a control element to every receiver; the end of the input after the file is complete."""
        if isinstance(element, Watermark | Idle):
            return
        if isinstance(element, EndOfInput):
            for share in self._shares.values():
                share.flush()
            self._writer.finish(reusable=self._reusable())
        super().broadcast(element)

    def close(self) -> None:
        """Discard an unfinished file."""
        self._writer.close()


@dataclass(frozen=True, slots=True)
class _Share:
    """The part of a file for one receiver, as a channel with unlimited credit."""

    writer: _Writer
    target: int

    @property
    def credit(self) -> Credit:
        return _CREDIT

    def send(self, element: Element) -> None:
        if isinstance(element, Batch):
            cursor = BatchCursor(element)
            while cursor:
                self.writer.append(self.target, cursor.take(_MOST))


def _batch(wire: EdgeCodec, frame: bytes, checksum: int) -> Batch:
    """The batch of a frame; raises `ValueError` if it is damaged."""
    if zlib.crc32(frame) != checksum:
        raise ValueError(f"the checksum of a batch of {len(frame)} bytes is wrong")
    element = wire.element(_FRAMES.decode(frame))
    if not isinstance(element, Batch):
        raise ValueError(f"it holds a {type(element).__name__}; expected a Batch")
    return element


def _index(file: BinaryIO) -> _Index:
    """The index of a file; raises `ValueError` if it has none."""
    size = file.seek(0, os.SEEK_END)
    if size < _TRAILER.size:
        raise ValueError(f"it has {size} bytes; expected at least {_TRAILER.size}")
    file.seek(size - _TRAILER.size)
    start, checksum = _TRAILER.unpack(file.read(_TRAILER.size))
    if start > size - _TRAILER.size:
        raise ValueError(f"its index begins at {start}, behind its end")
    file.seek(start)
    index = file.read(size - _TRAILER.size - start)
    if zlib.crc32(index) != checksum:
        raise ValueError("the checksum of its index is wrong")
    return _INDEXES.decode(index)
