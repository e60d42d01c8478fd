"""Reads the lines of text files.

Guarantee: bounded and replayable; the position of a line is its first byte. Files are cut into parts, so one file is
read by several readers; lines keep their order within a part. The files must not change while they are read.

Example:
    >>> TextFileSource("/data/logs").bounded
    True
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tidegate.connectors.files.enumerator import FileEnumerator
from tidegate.connectors.files.reader import LineReader
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.errors import ConfigError

__all__ = ["TextFileSource"]


@dataclass(frozen=True)
class TextFileSource(Source[FileSplit]):
    """Text files as a source of lines, without their ends.

    Args:
        path: A file, or a directory whose files are all read, except those that begin with `.` or `_`.
        charset: How text is encoded; one in which a line feed is the byte 10.
        part_bytes: How much of a file one reader takes at a time.

    Raises:
        ConfigError: the charset is unknown or ends lines otherwise, or the path is on another system.
    """

    path: str
    charset: str = "UTF-8"
    part_bytes: int = 64 * 1024 * 1024

    split_type = FileSplit
    bounded = True

    def __post_init__(self) -> None:
        try:
            fits = "\n".encode(self.charset) == b"\n"
        except LookupError as error:
            raise ConfigError(f"charset {self.charset!r} is unknown") from error
        if not fits:
            raise ConfigError(
                f"charset {self.charset!r} does not end lines by the byte 10; convert the file to UTF-8"
            )
        if self.part_bytes < 1:
            raise ConfigError(f"part_bytes is {self.part_bytes}; expected at least 1")
        if urlsplit(self.path).scheme not in ("", "file"):
            raise ConfigError(f"path {self.path!r} is not on this machine; expected a path or a file:// URL")

    def open_enumerator(
        self, context: EnumeratorContext[FileSplit], restored: bytes | None
    ) -> FileEnumerator:
        """Deals the parts of all files."""
        path = urlsplit(self.path).path if self.path.startswith("file:") else self.path
        return FileEnumerator(context, Path(path), self.part_bytes, restored)

    def open_reader(self, context: ReaderContext) -> LineReader:
        """Reads parts line by line."""
        return LineReader(self.charset)
