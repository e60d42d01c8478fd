"""PyFlink's builder of file sources.

Example:
    >>> FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build().paths
    ['/data/in']
"""

from __future__ import annotations

from typing import Protocol, Self

from tidegate.connectors.files.lines import TextFormat
from tidegate.connectors.files.reading import FileFormat
from tidegate.connectors.files.source import RecordFileSource

__all__ = ["FileSource", "FileSourceBuilder", "StreamFormat"]


class _Duration(Protocol):
    def to_milliseconds(self) -> int: ...


class StreamFormat:
    """How a file is read record by record."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextFormat:
        """A record per line."""
        return TextFormat(charset_name)


class FileSource:
    """Where file sources are built."""

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat, *paths: str) -> FileSourceBuilder:
        """A source of the records of files, and of all files of directories."""
        return FileSourceBuilder(stream_format, *paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: FileFormat, *paths: str) -> FileSourceBuilder:
        """The same for bulk formats."""
        return FileSourceBuilder(bulk_format, *paths)


class FileSourceBuilder:
    """A file source in the making."""

    def __init__(self, file_format: FileFormat, *paths: str) -> None:
        self._format = file_format
        self._paths = list(paths)
        self._watch_ms: int | None = None

    def process_static_file_set(self) -> Self:
        """Read the files that exist at the start."""
        self._watch_ms = None
        return self

    def monitor_continuously(self, discovery_interval: _Duration) -> Self:
        """Look for new files again and again."""
        self._watch_ms = discovery_interval.to_milliseconds()
        return self

    def build(self) -> RecordFileSource:
        """The source."""
        return RecordFileSource(self._paths, self._format, watch_ms=self._watch_ms)
