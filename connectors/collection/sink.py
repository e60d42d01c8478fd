"""Collection sink: its results are read by the program that started the job.

Guarantee: exactly once; values keep their types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from tidegate.changelog import RowKinds
from tidegate.connectors.base import FileCommitter, FileWriter
from tidegate.connectors.collection.serde import Frames, frames_in
from tidegate.connectors.spi import OnBranch, Sink
from tidegate.twophase.naming import parse_output
from tidegate.twophase.spi import CommitterContext, WriterContext

__all__ = ["CollectSink", "read_collected"]

_PREFIX = "collected"


@dataclass(frozen=True)
class CollectSink(Sink):
    """Keeps results in a directory that every process of the job can reach.

    Args:
        directory: Where to; read it with `read_collected`.
        take_over: Replace the claim of another pipeline on the directory.
    """

    directory: str
    take_over: bool = False

    delivery = "exactly-once"
    takes: ClassVar[RowKinds] = "rows"

    def __post_init__(self) -> None:
        # Subtasks and committers may run in processes with another working directory.
        object.__setattr__(self, "directory", str(Path(self.directory).absolute()))

    @property
    def on_branch(self) -> OnBranch:
        """Results of two histories do not mix."""
        return "refuse"

    def taking_over(self) -> Self:
        """The same sink, which replaces the claim of another pipeline on the directory."""
        return replace(self, take_over=True)

    def open_writer(self, context: WriterContext) -> FileWriter:
        """Writes frames of values."""
        encoder = Frames()
        return FileWriter(self.directory, context, encoder, _PREFIX)

    def open_committer(self, context: CommitterContext) -> FileCommitter:
        """Makes them visible."""
        return FileCommitter(self.directory, context, take_over=self.take_over)


def read_collected(directory: str | Path) -> Iterator[Any]:
    """Committed values: of one subtask in order, subtasks one after another within a checkpoint.

    Raises:
        StateFormatError: another version wrote them.
        StateCorruptError: a file is damaged.
    """
    root = Path(directory)
    found = [(parse_output(path.name), path) for path in root.glob(f"{_PREFIX}-*{Frames().suffix}")]
    ours = [(name, path) for name, path in found if name is not None]
    for _, path in sorted(ours, key=lambda pair: (pair[0].branch, pair[0].checkpoint, pair[0].subtask)):
        yield from frames_in(path.read_bytes(), path.name)
