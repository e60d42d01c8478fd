"""File sink: writes records to files of a directory.

Guarantee: exactly once. A file appears under its final name, complete, after its checkpoint is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from tidegate.changelog import RowKinds
from tidegate.components import OptionsOf
from tidegate.connectors.base import (
    BulkFormat,
    Compaction,
    FileCommitter,
    FileEncoder,
    FileWriter,
    RollingPolicy,
    Shape,
)
from tidegate.connectors.base.discovery import bucket_writable, writable
from tidegate.connectors.base.places import is_remote
from tidegate.connectors.files.buckets import BucketAssigner
from tidegate.connectors.files.options import FileSinkOptions
from tidegate.connectors.files.output import FileCompactor, OutputFileConfig
from tidegate.connectors.files.partitions import PartitionCommit, PartitionCommitter
from tidegate.connectors.files.serde import JsonLines
from tidegate.connectors.spi import Finding, JobFacts, OnBranch, Sink
from tidegate.errors import ConfigError
from tidegate.options import altered, filled
from tidegate.twophase.spi import CommitterContext, WriterContext

__all__ = ["FileSink", "FileSinkBuilder"]


@dataclass(frozen=True)
class FileSink(Sink):
    """A directory as a sink; other pipelines and sinks may share it.

    Args:
        directory: Where the files go, relative to where the program is started; or `s3://bucket/path?endpoint=...`.
        encoder: How records become bytes.
        options: Names and behaviour.

    Example:
        >>> FileSink("/data/out").delivery
        'exactly-once'
        >>> names = OutputFileConfig.builder().with_part_prefix("orders").build()
        >>> FileSink.for_row_format("/data/out", JsonLines()).with_output_file_config(names).build().options.prefix
        'orders'

    Raises:
        ConfigError: the options do not go together with the encoder.
    """

    directory: str | Path
    encoder: FileEncoder | BulkFormat = JsonLines()
    options: FileSinkOptions = FileSinkOptions()

    delivery = "exactly-once"
    takes: ClassVar[RowKinds] = "rows"

    def __post_init__(self) -> None:
        # Subtasks and committers may run in processes with another working directory.
        if not is_remote(self.directory):
            object.__setattr__(self, "directory", Path(self.directory).absolute())
        if isinstance(self.encoder, BulkFormat):
            self._check_bulk()

    @staticmethod
    def for_row_format(base_path: str, encoder: FileEncoder) -> FileSinkBuilder:
        """A sink that writes record by record, built as PyFlink's programs do."""
        return FileSinkBuilder(base_path, encoder, RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: FileEncoder | BulkFormat) -> FileSinkBuilder:
        """A sink of files that are written in blocks, built as PyFlink's programs do."""
        return FileSinkBuilder(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy())

    @property
    def on_branch(self) -> OnBranch:
        """What happens to files committed after the checkpoint a branch goes back to."""
        return self.options.on_branch

    def taking_over(self) -> Self:
        """The same sink, which replaces the claim of another pipeline on the directory."""
        return replace(self, options=altered(self.options, take_over=True))

    def with_options(self, options_of: OptionsOf) -> Self:
        """The same sink, with settings for the options that the program leaves open."""
        return replace(self, options=filled(self.options, options_of("connector.files.sink")))

    def open_writer(self, context: WriterContext) -> FileWriter:
        """Writes hidden files."""
        options = self.options
        shape = Shape(
            options.rolling,
            options.buckets,
            options.compression,
            options.compaction,
            announces=options.partition_commit is not None,
            on_error=options.on_error,
            dead_letters=options.dead_letters,
        )
        return FileWriter(self.directory, context, self.encoder, options.prefix, options.suffix, shape)

    def open_committer(self, context: CommitterContext) -> FileCommitter:
        """Gives them their final names."""
        return FileCommitter(self.directory, context, take_over=self.options.take_over)

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Whether the directory or the bucket can be written."""
        if is_remote(self.directory):
            yield from bucket_writable(str(self.directory))
        else:
            yield writable(Path(self.directory))

    def open_global_committer(self, context: CommitterContext) -> PartitionCommitter:
        """Commits partitions; writers of a sink that does not commit any announce none."""
        how = self.options.partition_commit or PartitionCommit()
        return PartitionCommitter(self.directory, how, context)

    def _check_bulk(self) -> None:
        options, kind = self.options, type(self.encoder).__name__
        if not options.rolling.on_checkpoint:
            raise ConfigError(
                f"a {kind} file is complete only when it is closed, but this rolling policy keeps files open "
                "across checkpoints; expected on_checkpoint; use RollingPolicy(part_size=...), or "
                "on_checkpoint_rolling_policy()"
            )
        if options.compression is not None:
            raise ConfigError(
                f"{kind} has its own compression; got compression {options.compression!r}; expected None"
            )
        if options.compaction is not None and options.compaction.delimiter:
            raise ConfigError(f"{kind} files are merged record by record; got a delimiter; expected None")


class FileSinkBuilder:
    """Builder of a file sink; as in Flink, the default bucket is a folder for each hour."""

    def __init__(self, base_path: str, encoder: FileEncoder | BulkFormat, rolling: RollingPolicy) -> None:
        self._base_path = base_path
        self._encoder = encoder
        self._options = FileSinkOptions(rolling=rolling, buckets=BucketAssigner.date_time_bucket_assigner())

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """What the files are called."""
        prefix, suffix = output_file_config.part_prefix, output_file_config.part_suffix
        self._options = altered(self._options, prefix=prefix, suffix=suffix)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """When files end."""
        self._options = altered(self._options, rolling=rolling_policy)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Which folder a record goes to."""
        self._options = altered(self._options, buckets=bucket_assigner)
        return self

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepted and without effect: sizes and times are looked at with each batch and each checkpoint."""
        return self

    def enable_compact(self, strategy: Compaction, compactor: FileCompactor) -> Self:
        """Merge small files before they become visible."""
        merged = None if compactor.delimiter is None else replace(strategy, delimiter=compactor.delimiter)
        self._options = altered(self._options, compaction=merged)
        return self

    def disable_compact(self) -> Self:
        """Let small files be."""
        self._options = altered(self._options, compaction=None)
        return self

    def build(self) -> FileSink:
        """The sink."""
        return FileSink(self._base_path, self._encoder, self._options)
