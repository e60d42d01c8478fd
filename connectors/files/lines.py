"""Line formats of the file source: text, JSON and the common part of CSV.

A file is cut anywhere, and a line belongs to the part in which it begins. Files whose names end with `.gz`, `.bz2` or
`.xz` are unpacked on the way and not cut. The position of a record is the byte, of the unpacked file, at which it
begins.

Example:
    >>> JsonFormat().decoder(())([b'{"id":1}', b"[2]"])
    [{'id': 1}, [2]]
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, ClassVar, TypeAlias

import msgspec

from tidegate.connectors.files.reading import BadRecord, Piece
from tidegate.connectors.files.split import FileSplit, parts
from tidegate.errors import ConfigError, RecordError

__all__ = ["Decode", "JsonFormat", "LineFormat", "TextFormat"]

Decode: TypeAlias = Callable[[list[bytes]], list[Any]]

_CHUNK = 1 << 16
_END = 2**63 - 1
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


class LineFormat(ABC):
    """Records that are lines, in a charset in which a line feed is the byte 10; subclasses are frozen dataclasses.

    Raises:
        ConfigError: the charset is unknown or ends lines otherwise.
    """

    charset: str
    name: ClassVar[str]
    keeps_blank: ClassVar[bool] = False
    """Whether a line with nothing on it is a record."""

    def __post_init__(self) -> None:
        try:
            fits = "\n".encode(self.charset) == b"\n"
        except LookupError as error:
            raise ConfigError(f"charset {self.charset!r} is unknown") from error
        if not fits:
            raise ConfigError(
                f"charset {self.charset!r} does not end lines with byte 10; convert the file to UTF-8"
            )

    @abstractmethod
    def decoder(self, head: tuple[bytes, ...]) -> Decode:
        """What makes records of lines, one of each; it may raise ValueError for lines that are none.

        Args:
            head: The lines that `head_of` took from the beginning of the file.
        """

    def head_of(self, file: IO[bytes]) -> tuple[bytes, ...]:
        """Lines at the beginning that are not records."""
        return ()

    def parts(self, path: str, most: int) -> list[FileSplit]:
        """Parts of this size in bytes; one if the file is compressed."""
        if Path(path).suffix in _UNPACK:
            return parts(path, size=_END, most=_END)
        return parts(path, size=Path(path).stat().st_size, most=most)

    def read(self, split: FileSplit) -> Iterator[Piece]:
        """The lines that begin within a part."""
        try:
            with _opened(split.path) as file:
                decode = self.decoder(self.head_of(file))
                at = max(file.tell(), _next_line(file, split))
                file.seek(at)
                while at < split.stop and (data := file.read(min(_CHUNK, split.stop - at))):
                    data = data if data.endswith(b"\n") else data + file.readline()
                    yield self._piece(data, at, split.path, decode)
                    at += len(data)
        except _DAMAGED as error:
            raise RecordError(f"file {split.path} cannot be decompressed: {error}; it is damaged") from error

    def _piece(self, data: bytes, at: int, path: str, decode: Decode) -> Piece:
        lines = BytesIO(data).readlines()
        bounds = list(accumulate(map(len, lines), initial=at))
        if not self.keeps_blank and True in map(bytes.isspace, lines):
            for index in reversed([index for index, line in enumerate(lines) if line.isspace()]):
                del lines[index], bounds[index]
        try:
            return Piece(decode(lines), bounds)
        except (ValueError, csv.Error):
            piece = self._line_by_line(lines, bounds, path, decode)
            if not piece.bad:
                raise
            return piece

    def _line_by_line(self, lines: list[bytes], bounds: list[int], path: str, decode: Decode) -> Piece:
        values: list[Any] = []
        starts: list[int] = []
        bad: list[BadRecord] = []
        for line, start in zip(lines, bounds, strict=False):
            try:
                values += decode([line])
                starts.append(start)
            except (ValueError, csv.Error) as error:
                bad.append(BadRecord(line.rstrip(b"\r\n"), start, self._explained(line, start, path, error)))
        return Piece(values, [*starts, bounds[-1]], bad)

    def _explained(self, line: bytes, start: int, path: str, error: Exception) -> RecordError:
        what = f"line at byte {start} of {path} is not valid"
        if isinstance(error, UnicodeDecodeError):
            said = RecordError(f"{what} {self.charset}: {error.reason}; set its charset")
        else:
            said = RecordError(f"{what} {self.name}: {error}; got {line[:80]!r}")
        said.__cause__ = error
        return said


@dataclass(frozen=True)
class TextFormat(LineFormat):
    """Lines as texts, without their ends.

    Args:
        charset: How they are encoded.
    """

    charset: str = "UTF-8"

    name = "text"
    keeps_blank = True

    def decoder(self, head: tuple[bytes, ...]) -> Decode:
        """Decodes them."""
        charset = self.charset
        return lambda lines: [line.rstrip(b"\n").removesuffix(b"\r").decode(charset) for line in lines]


@dataclass(frozen=True)
class JsonFormat(LineFormat):
    """A JSON value on each line; blank lines are left out.

    Args:
        type: What the values must be, as msgspec takes it (a dataclass, a TypedDict, `list[int]`); anything if `Any`.
    """

    type: Any = Any
    charset: str = field(default="UTF-8", init=False)

    name = "JSON"

    def decoder(self, head: tuple[bytes, ...]) -> Decode:
        """Parses them."""
        decode = msgspec.json.Decoder(self.type).decode
        return lambda lines: [decode(line) for line in lines]


def _plain(path: str) -> IO[bytes]:
    return Path(path).open("rb")


_UNPACK: dict[str, Callable[[str], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def _opened(path: str) -> IO[bytes]:
    unpack = _UNPACK.get(Path(path).suffix, _plain)
    file: IO[bytes] = unpack(path)
    return file


def _next_line(file: IO[bytes], split: FileSplit) -> int:
    """Where the part's next line begins."""
    if split.begun or split.at == 0:
        return split.at
    # A line that begins before the part belongs to the part before; one that begins at it has an end before it.
    file.seek(split.at - 1)
    file.readline()
    return file.tell()
