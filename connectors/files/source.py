"""File source: reads the records of files.

Guarantee: replayable; a record's position is its first byte, or its row where a format has rows. Files are cut into
parts, so one file is read by several readers; records keep their order within a part. Files must not change once they
are seen: write them under a name that begins with `.` and rename them. Bounded, unless it looks for more files.

Example:
    >>> RecordFileSource("/data/logs", TextFormat()).bounded
    True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from tidegate.connectors.base import all_splits
from tidegate.connectors.base.dead_letters import OnError, check_on_error
from tidegate.connectors.base.discovery import readable
from tidegate.connectors.files.enumerator import FileEnumerator, Files, WatchingEnumerator
from tidegate.connectors.files.lines import TextFormat
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.files.reading import FileFormat
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import (
    EnumeratorContext,
    Extent,
    Finding,
    JobFacts,
    Part,
    ReaderContext,
    Remaining,
    Sink,
    Source,
    SplitEnumerator,
)
from tidegate.errors import ConfigError
from tidegate.ids import SplitId

__all__ = ["RecordFileSource", "TextFileSource"]


@dataclass(frozen=True)
class RecordFileSource(Source[FileSplit]):
    """Files of one format as a source.

    Args:
        paths: Files, and directories of which all files are read, also those of folders within; except what begins
            with `.` or `_`.
        format: How they are read.
        part_bytes: About how much of a file one reader takes at a time.
        watch_ms: How often to look for new files; None reads what is there at the first start.
        on_error: `fail` at an invalid line, `skip` and count it, or let `dead_letters` have it; the same for
            files that are damaged, vanish, or may not be read, from where that shows.
        dead_letters: The sink for those.

    Example:
        >>> RecordFileSource(["/data/a", "/data/b"], TextFormat(), watch_ms=1_000).bounded
        False

    Raises:
        ConfigError: a number makes no sense, or a path is on another system or missing.
    """

    paths: str | list[str]
    format: FileFormat
    part_bytes: int = 64 * 1024 * 1024
    watch_ms: int | None = None
    on_error: OnError = "fail"
    dead_letters: Sink | None = None
    bounded: bool = field(init=False)

    split_type = FileSplit

    def __post_init__(self) -> None:
        check_on_error("file source", self.on_error, self.dead_letters)
        if not self.paths:
            raise ConfigError("a file source has no path; expected a file or a directory")
        if self.part_bytes < 1:
            raise ConfigError(f"part_bytes is {self.part_bytes}; expected at least 1")
        if self.watch_ms is not None and self.watch_ms < 1:
            raise ConfigError(f"watch_ms is {self.watch_ms}; expected at least 1, or None")
        for path in self._each_path():
            if urlsplit(path).scheme not in ("", "file"):
                raise ConfigError(f"path {path!r} is not on this machine; expected a path or a file:// URL")
        object.__setattr__(self, "bounded", self.watch_ms is None)

    def open_enumerator(
        self, context: EnumeratorContext[FileSplit], restored: bytes | None
    ) -> SplitEnumerator[FileSplit]:
        """Deals the parts of all files."""
        files = Files(self._local_paths(), self.format, self.part_bytes, strict=self.on_error == "fail")
        if self.watch_ms is None:
            return FileEnumerator(context, files, restored)
        return WatchingEnumerator(context, files, self.watch_ms, restored)

    def open_reader(self, context: ReaderContext) -> FileReader:
        """Reads parts."""
        return FileReader(self.format, self.on_error, context)

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Whether the files are there and may be read."""
        return readable(self._local_paths())

    def extent(self, remaining: Remaining | None = None) -> Extent:
        """What the files hold now; raises as the enumerator does, and `StateFormatError`."""
        from tidegate.connectors.files.audited import extent_of

        return extent_of(all_splits(self), self.format, remaining)

    def only(self, part: Part, position: int) -> FileSplit:
        """The record that begins at a position."""
        split = cast("FileSplit", part.split)
        return FileSplit(SplitId(f"{split.path}:{position}"), split.path, position, position + 1, begun=True)

    def _local_paths(self) -> list[Path]:
        return [Path(urlsplit(path).path if path.startswith("file:") else path) for path in self._each_path()]

    def _each_path(self) -> list[str]:
        return [self.paths] if isinstance(self.paths, str) else self.paths


class TextFileSource(RecordFileSource):
    """Text files as a source of lines, without their ends.

    Example:
        >>> TextFileSource("/data/logs").format
        TextFormat(charset='UTF-8')
    """

    def __init__(self, path: str, charset: str = "UTF-8", part_bytes: int = 64 * 1024 * 1024) -> None:
        super().__init__(path, TextFormat(charset), part_bytes)
