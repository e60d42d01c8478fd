"""Prints each record on a line of standard output.

Guarantee: at least once. A line is written when its batch is, long before the checkpoint is decided, so after a
failure the lines since the last checkpoint are printed again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from tidegate.connectors.spi import Sink
from tidegate.elements import Batch, RowKind
from tidegate.ids import CheckpointId
from tidegate.row import Row
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["PrintSink", "PrintWriter"]


@dataclass(frozen=True)
class PrintSink(Sink):
    """Prints records; several subtasks number their lines (`2> ...`).

    Args:
        prefix: Comes first on every line.
    """

    prefix: str = ""

    delivery = "at-least-once"

    def open_writer(self, context: WriterContext) -> PrintWriter:
        """Prints to the standard output of its process."""
        number = str(context.subtask.index + 1) if context.parallelism > 1 else ""
        start = ":".join(part for part in (self.prefix, number) if part)
        return PrintWriter(f"{start}> " if start else "")


class PrintWriter(SinkWriter):
    """Prints and flushes batch by batch; there is nothing to commit."""

    def __init__(self, start: str) -> None:
        self._start = start

    def write(self, batch: Batch) -> None:
        """Print a batch as one piece."""
        kinds = batch.kinds or repeat(None)
        lines = [
            f"{self._start}{_shown(value, kind)}\n" for value, kind in zip(batch.values, kinds, strict=False)
        ]
        sys.stdout.write("".join(lines))
        sys.stdout.flush()

    def prepare(self, checkpoint: CheckpointId) -> None:
        """Nothing: every batch was flushed when it was written."""


def _shown(value: Any, kind: RowKind | None) -> str:
    text = str(value)
    if isinstance(value, Row):
        # A row's own text begins with its kind, unless that is an insert.
        kind = value.get_row_kind() if kind is None and text.startswith(("-", "+")) else kind
        text = text if kind is None else text[text.index("(") :]
    if kind is None:
        return text
    return kind.short + (text if text.startswith("(") else f"({text})")
