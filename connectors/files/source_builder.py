"""PyFlink's way of building a file source, as far as ours can do what is asked.

Example:
    >>> FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build().path
    '/data/in'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Self

from tidegate.connectors.files.source import TextFileSource
from tidegate.errors import ConfigError

__all__ = ["FileSource", "FileSourceBuilder", "StreamFormat"]


@dataclass(frozen=True)
class StreamFormat:
    """How a file is read record by record."""

    charset_name: str

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """A record per line."""
        return StreamFormat(charset_name)


class FileSource:
    """Where file sources are built."""

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """A source of the lines of a file, or of the files of a directory.

        Raises:
            ConfigError: it is not one path.
        """
        if len(paths) != 1:
            raise ConfigError(
                f"a file source takes one path; got {len(paths)}; expected a file or a directory; "
                "make a source of each and unite them by union(...)"
            )
        return FileSourceBuilder(stream_format, paths[0])


@dataclass(frozen=True)
class FileSourceBuilder:
    """A file source in the making."""

    stream_format: StreamFormat
    path: str

    def process_static_file_set(self) -> Self:
        """Read what is there at the start, which is all it does."""
        return self

    def monitor_continuously(self, discovery_interval: Any) -> NoReturn:
        """Refused.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "monitor_continuously is not available yet: a file source reads what is there at its first start; "
            "leave it out"
        )

    def build(self) -> TextFileSource:
        """The source."""
        return TextFileSource(self.path, self.stream_format.charset_name)
