"""Writes records to files of a directory.

Guarantee: exactly once. A file appears under its final name, complete, after its checkpoint is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.connectors.base import FileCommitter, FileEncoder, FileWriter
from tidegate.connectors.files.options import FileSinkOptions
from tidegate.connectors.files.serde import JsonLines
from tidegate.connectors.spi import OnBranch, Sink
from tidegate.twophase.spi import CommitterContext, WriterContext

__all__ = ["FileSink"]


@dataclass(frozen=True)
class FileSink(Sink):
    """A directory as a sink; other pipelines and sinks may share it.

    Args:
        directory: Where the files go; relative to where the program is started.
        encoder: How records become bytes.
        options: Names and behaviour.

    Example:
        >>> FileSink("/data/out").delivery
        'exactly-once'
    """

    directory: str | Path
    encoder: FileEncoder = JsonLines()
    options: FileSinkOptions = FileSinkOptions()

    delivery = "exactly-once"

    def __post_init__(self) -> None:
        # Subtasks and committers may run in processes with another working directory.
        object.__setattr__(self, "directory", Path(self.directory).absolute())

    @property
    def on_branch(self) -> OnBranch:
        """What happens to files committed after the checkpoint a branch goes back to."""
        return self.options.on_branch

    def open_writer(self, context: WriterContext) -> FileWriter:
        """Writes hidden files, one per checkpoint."""
        suffix = self.encoder.suffix if self.options.suffix is None else self.options.suffix
        return FileWriter(Path(self.directory), context, self.encoder, self.options.prefix, suffix)

    def open_committer(self, context: CommitterContext) -> FileCommitter:
        """Gives them their final names."""
        return FileCommitter(Path(self.directory), context)
