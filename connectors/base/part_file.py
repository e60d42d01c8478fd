"""Part file of a sink while it is written, and its state in a checkpoint.

A file of lines can be written to over several checkpoints: each records its valid length, and a writer restored from
there copies that much and leaves the rest. A copy, because the process that wrote it may still be about to wake up.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, Literal, Protocol, runtime_checkable

import msgspec
import xxhash

from tidegate.arrow_rows import ArrowRows
from tidegate.connectors.base.output_place import WriterStore
from tidegate.errors import StateCorruptError

__all__ = [
    "BulkFormat",
    "Compression",
    "Content",
    "FileEncoder",
    "HeldFile",
    "PartFile",
    "Summed",
    "SupportsArrowRows",
    "SupportsHead",
    "suffix_of",
]

Compression = Literal["gzip", "bzip2", "xz"]

_CHUNK = 1 << 20
_SUFFIXES: Final[dict[Compression, str]] = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz"}
_COMPRESSORS: Final[dict[Compression, Callable[[], Any]]] = {
    "gzip": lambda: zlib.compressobj(wbits=31),
    "bzip2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
}


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


@runtime_checkable
class SupportsHead(Protocol):
    """An encoder whose files start with a header."""

    def head(self) -> bytes:
        """What every file begins with."""
        ...


class Content(Protocol):
    """What is being written to one file."""

    def write(self, chunk: Any) -> None:
        """Append what `encode` made; may buffer."""
        ...

    def end(self) -> None:
        """Write out all of it, so that the file is whole."""
        ...


class Summed:
    """A file that sums its bytes; implements the part of the file interface that pyarrow needs."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.size = 0
        self.checksum = xxhash.xxh3_64()
        self.failure: OSError | None = None
        """Why it could not be written to. Not raised by `write`: pyarrow aborts the process if that happens in a close."""
        self.given_up = False
        """Whether the file was discarded; pyarrow may still write a footer."""

    def write(self, data: Any) -> int:
        """Append bytes; `check` raises if they were not written."""
        if self.given_up:
            return len(data)
        try:
            self.file.write(data)
        except OSError as error:
            self.failure, self.given_up = error, True
        self.checksum.update(data)
        self.size += len(data)
        return len(data)

    def check(self) -> None:
        """See that all was written.

        Raises:
            OSError: it was not.
        """
        if self.failure is not None:
            raise self.failure

    def tell(self) -> int:
        """How many bytes there are."""
        return self.size

    def flush(self) -> None:
        """Flush buffered bytes."""
        self.file.flush()

    def readable(self) -> bool:
        """No."""
        return False

    def writable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """No."""
        return False


@runtime_checkable
class BulkFormat(Protocol):
    """A format whose files are complete only when closed; picklable and stateless."""

    @property
    def suffix(self) -> str:
        """What file names end with, such as `.parquet`."""
        ...

    def encode(self, values: list[Any]) -> Any:
        """All of `values`, ready to be written; all or nothing.

        Raises:
            RecordError: a value would not come back the same.
        """
        ...

    def open(self, file: Summed) -> Content:
        """The content of a new file."""
        ...

    def merge(self, sources: Sequence[IO[bytes]], file: Summed) -> None:
        """Write the records of whole files to a new one, in their order."""
        ...


@runtime_checkable
class SupportsArrowRows(Protocol):
    """An encoder or format that writes columns as they are."""

    def encode_arrow(self, rows: ArrowRows) -> Any | None:
        """As `encode`; None if it needs the rows, to write them or to say which of them it refuses."""
        ...


class HeldFile(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """Checkpointed state of a hidden file that is still written to; `v` versions the encoding."""

    path: str
    """The operator's hidden folder and the file's name in it."""
    bucket: str
    final: str
    length: int
    records: int
    begun_ms: int
    written_ms: int
    checkpoints: int = 0
    """How many have passed since it ended; 0 while it is written to."""
    also: tuple[str, ...] = ()


class PartFile:
    """A file of one bucket, from its first record until it is sealed.

    Args:
        place: Where it is.
        name: What it is called while it is hidden.
        bucket: The folder it is going to be in.
        now_ms: The time.
        number: Its number in its name.
    """

    def __init__(self, place: WriterStore, name: str, bucket: str, now_ms: int, number: int = 0) -> None:
        self.name = name
        self.bucket = bucket
        self.number = number
        self.begun_ms = self.written_ms = now_ms
        self.records = 0
        self.checkpoints = 0
        self.final: str | None = None
        """Its name once it is seen, when that is decided."""
        self.also: tuple[str, ...] = ()
        self.held = False
        """Whether a checkpoint counts on it under its first name."""
        self._place = place
        self._file: Summed | None = Summed(place.create(name))
        self._content: Content | None = None
        self._sum = self._file

    @property
    def size(self) -> int:
        """How many bytes were written out."""
        return self._sum.size

    @property
    def checksum(self) -> str:
        """The checksum of its content."""
        return self._sum.checksum.hexdigest()

    def begin(self, encoder: FileEncoder | BulkFormat, compression: Compression | None) -> None:
        """Take records from here on."""
        file = self._opened()
        if isinstance(encoder, BulkFormat):
            self._content = encoder.open(file)
            return
        self._content = _Lines(file, compression)
        if file.size == 0 and isinstance(encoder, SupportsHead):
            self._content.write(encoder.head())

    def note_time(self, now_ms: int) -> None:
        """Let no time be later than now: a clock that was set back would keep the file open for that long."""
        self.begun_ms, self.written_ms = min(self.begun_ms, now_ms), min(self.written_ms, now_ms)

    def write(self, chunk: Any, records: int, now_ms: int) -> None:
        """Append encoded records."""
        assert self._content is not None
        self._content.write(chunk)
        self._opened().check()
        self.records += records
        self.written_ms = now_ms

    def copy(self, source: IO[bytes], length: int | None = None) -> int:
        """Append so much of another file; how much it had."""
        file, left = self._opened(), length
        while chunk := source.read(_CHUNK if left is None else min(_CHUNK, left)):
            file.write(chunk)
            left = None if left is None else left - len(chunk)
        file.check()
        return file.size

    def merge(self, sources: Sequence[PartFile], encoder: FileEncoder | BulkFormat, delimiter: bytes) -> None:
        """Append the records of closed files."""
        files = [self._place.read(self._place.path(part.name)) for part in sources]
        try:
            if isinstance(encoder, BulkFormat):
                encoder.merge(files, self._opened())
            else:
                for number, file in enumerate(files):
                    if number and delimiter:
                        self._opened().write(delimiter)
                    self.copy(file)
        finally:
            for file in files:
                file.close()
        self.records = sum(part.records for part in sources)
        self.also = tuple(name for part in sources for name in (part.name, *part.also))

    def end(self) -> None:
        """Nothing more comes."""
        if self._file is not None:
            self._end_content()
            self._place.end(self.name, self._file.file)
            self._file = self._content = None

    def hold(self) -> None:
        """Make the written bytes durable, for a checkpoint that will contain them."""
        if self._file is None:
            self.checkpoints += 1
        else:
            self._end_content()
            self._place.hold(self.name, self._file.file)
        if not self.held:
            self._place.sync()
            self.held = True

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.given_up = True
            self._content = None
            self._file.file.close()

    def remembered(self) -> HeldFile:
        """Its state for a checkpoint."""
        assert self.final is not None
        return HeldFile(
            self._place.path(self.name),
            self.bucket,
            self.final,
            self.size,
            self.records,
            self.begun_ms,
            self.written_ms,
            self.checkpoints,
            self.also,
        )

    def resume(self, held: HeldFile) -> bool:
        """Restore it from a checkpoint; False if all of it is visible already.

        Raises:
            StateCorruptError: it is not there any more, or not whole.
        """
        self.begun_ms, self.written_ms, self.final = held.begun_ms, held.written_ms, held.final
        self.records, self.checkpoints = held.records, held.checkpoints
        try:
            with self._place.read(held.path) as source:
                copied = self.copy(source, held.length)
        except FileNotFoundError:
            copied = 0
        if copied == held.length:
            name = held.path.rpartition("/")[2]
            # What belongs to another operator is left to it.
            self.also = (name, *held.also) if self._place.path(name) == held.path else ()
            return True
        if self._place.is_visible(held.final):
            return False
        raise StateCorruptError(
            f"the in-progress file of {self._place.display_name(held.final)!r} is missing or truncated: got {copied} "
            f"bytes of {held.path!r}; expected {held.length}; put it back or restore another checkpoint"
        )

    def _end_content(self) -> None:
        if self._content is not None:
            self._content.end()
        self._opened().check()

    def _opened(self) -> Summed:
        assert self._file is not None
        return self._file


def suffix_of(encoder: FileEncoder | BulkFormat, compression: Compression | None) -> str:
    """What names of an encoder's files end with."""
    return encoder.suffix + (_SUFFIXES[compression] if compression is not None else "")


class _Lines:
    """Bytes, maybe compressed; after an end the compressed stream continues with another member."""

    def __init__(self, file: Summed, compression: Compression | None) -> None:
        self._file = file
        self._make = _COMPRESSORS[compression] if compression is not None else None
        self._member: Any = None

    def write(self, chunk: bytes) -> None:
        if self._make is None:
            self._file.write(chunk)
            return
        if self._member is None:
            self._member = self._make()
        self._file.write(self._member.compress(chunk))

    def end(self) -> None:
        if self._member is not None:
            self._file.write(self._member.flush())
            self._member = None
