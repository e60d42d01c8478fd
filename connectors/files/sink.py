"""Writes records to files of a directory.

Guarantee: exactly once. A file appears under its final name, complete, after its checkpoint is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidegate.connectors.base import FileCommitter, FileEncoder, FileWriter
from tidegate.connectors.files.options import FileSinkOptions
from tidegate.connectors.files.output import BucketAssigner, OutputFileConfig, RollingPolicy
from tidegate.connectors.files.serde import JsonLines
from tidegate.connectors.spi import OnBranch, Sink
from tidegate.twophase.spi import CommitterContext, WriterContext

__all__ = ["FileSink", "FileSinkBuilder"]


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
        >>> names = OutputFileConfig.builder().with_part_prefix("orders").build()
        >>> FileSink.for_row_format("/data/out", JsonLines()).with_output_file_config(names).build().options.prefix
        'orders'
    """

    directory: str | Path
    encoder: FileEncoder = JsonLines()
    options: FileSinkOptions = FileSinkOptions()

    delivery = "exactly-once"

    def __post_init__(self) -> None:
        # Subtasks and committers may run in processes with another working directory.
        object.__setattr__(self, "directory", Path(self.directory).absolute())

    @staticmethod
    def for_row_format(base_path: str, encoder: FileEncoder) -> FileSinkBuilder:
        """A sink that writes record by record, built as PyFlink's programs do."""
        return FileSinkBuilder(base_path, encoder)

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


class FileSinkBuilder:
    """A file sink in the making."""

    def __init__(self, base_path: str, encoder: FileEncoder) -> None:
        self._base_path = base_path
        self._encoder = encoder
        self._options = FileSinkOptions()

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """What the files are called."""
        self._options = FileSinkOptions(output_file_config.part_prefix, output_file_config.part_suffix)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Accepted and without effect: every checkpoint begins a file."""
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Accepted: there is only the base path."""
        return self

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepted and without effect: files end with their checkpoint, not by time."""
        return self

    def disable_compact(self) -> Self:
        """Accepted: files are never compacted."""
        return self

    def build(self) -> FileSink:
        """The sink."""
        return FileSink(self._base_path, self._encoder, self._options)
