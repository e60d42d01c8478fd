"""Registered files of a program, sent to the executors as broadcasts: only the driver's machine has to have them.

Spark keeps one copy per executor and deletes it after the attempt. A worker process that asks for a file keeps its
content in memory.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError
from tidegate.runtime.program_resources import CachedFile

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["SentFile", "SentFiles"]

_MEMBER = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile(CachedFile):
    """A file or directory as it was at the start of the attempt."""

    content: Any
    """The broadcast of a tar archive."""

    def copy_to(self, place: Path) -> None:
        """Make a copy at a path that does not exist yet."""
        with (
            TemporaryDirectory(dir=place.parent) as directory,
            tarfile.open(fileobj=io.BytesIO(self.content.value)) as archive,
        ):
            # We created the archive; without this filter Python versions differ in what they skip.
            archive.extraction_filter = lambda member, path: member
            archive.extractall(directory)
            Path(directory, _MEMBER).rename(place)


class SentFiles:
    """The files of a program, for as long as an attempt lasts.

    Raises:
        ConfigError: one of them cannot be read any more.
    """

    def __init__(self, context: SparkContext, files: Mapping[str, CachedFile]) -> None:
        self.sent: dict[str, CachedFile] = {
            name: SentFile(file.path, file.executable, content=context.broadcast(_archive(name, file.path)))
            for name, file in files.items()
        }

    def close(self) -> None:
        """Remove the broadcasts."""
        for file in self.sent.values():
            assert isinstance(file, SentFile)
            with contextlib.suppress(Exception):  # a Java process that is gone keeps nothing
                file.content.destroy()


def _archive(name: str, path: str) -> bytes:
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
            archive.add(path, _MEMBER)
    except OSError as error:
        raise ConfigError(f"file {path} registered as {name!r} cannot be sent: {error}") from error
    return packed.getvalue()
