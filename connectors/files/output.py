"""PyFlink's output file configuration and file compactors.

Example:
    >>> OutputFileConfig.builder().with_part_prefix("orders").build()
    OutputFileConfig(part_prefix='orders', part_suffix='')
    >>> FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).build().checkpoints
    5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidegate.connectors.base import Compaction

__all__ = [
    "FileCompactStrategy",
    "FileCompactStrategyBuilder",
    "FileCompactor",
    "OutputFileConfig",
    "OutputFileConfigBuilder",
]


@dataclass(frozen=True)
class OutputFileConfig:
    """What the names of output files begin and end with."""

    part_prefix: str
    part_suffix: str

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """A configuration in the making."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What they begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """What they end with."""
        return self.part_suffix


class OutputFileConfigBuilder:
    """Names of output files in the making."""

    def __init__(self) -> None:
        self._prefix = "part"
        self._suffix = ""

    def with_part_prefix(self, prefix: str) -> Self:
        """What they begin with."""
        self._prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> Self:
        """What they end with."""
        self._suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        """The configuration."""
        return OutputFileConfig(self._prefix, self._suffix)


class FileCompactStrategy:
    """When small files are merged."""

    @staticmethod
    def builder() -> FileCompactStrategyBuilder:
        """A strategy in the making."""
        return FileCompactStrategyBuilder()


class FileCompactStrategyBuilder:
    """When small files are merged, in the making."""

    def __init__(self) -> None:
        self._size: int | None = None
        self._checkpoints: int | None = None

    def set_size_threshold(self, size_threshold: int) -> Self:
        """From how many bytes on, all together."""
        self._size = size_threshold
        return self

    def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> Self:
        """After how many checkpoints."""
        self._checkpoints = num_checkpoints_before_compaction
        return self

    def set_num_compact_threads(self, num_compact_threads: int) -> Self:
        """Accepted and without effect: each subtask merges its own files."""
        return self

    def build(self) -> Compaction:
        """The strategy."""
        return Compaction(self._size, self._checkpoints)


@dataclass(frozen=True)
class FileCompactor:
    """How small files are merged: `delimiter` goes between their contents; None leaves each file as it is."""

    delimiter: bytes | None

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One after the other."""
        return FileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Not at all."""
        return FileCompactor(None)
