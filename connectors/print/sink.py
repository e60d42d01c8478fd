"""Prints each record on a line of standard output, or of the error output.

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
        changes: Show every record as a change, `+I(1,a)`, also where it is nothing but an insert.
        stderr: Print to the error output.
    """

    prefix: str = ""
    changes: bool = False
    stderr: bool = False

    delivery = "at-least-once"

    def open_writer(self, context: WriterContext) -> PrintWriter:
        """Prints to an output of its process."""
        number = str(context.subtask.index + 1) if context.parallelism > 1 else ""
        start = ":".join(part for part in (self.prefix, number) if part)
        return PrintWriter(f"{start}> " if start else "", self.changes, self.stderr)


class PrintWriter(SinkWriter):
    """Prints and flushes batch by batch; there is nothing to commit."""

    def __init__(self, start: str, changes: bool, stderr: bool) -> None:
        self._start = start
        self._shown = _as_change if changes else _shown
        self._stderr = stderr

    def write(self, batch: Batch) -> None:
        """Print a batch as one piece."""
        kinds = repeat(RowKind.INSERT) if batch.kinds is None else batch.kinds
        lines = [
            f"{self._start}{self._shown(value, kind)}\n"
            for value, kind in zip(batch.values, kinds, strict=False)
        ]
        output = sys.stderr if self._stderr else sys.stdout
        output.write("".join(lines))
        output.flush()

    def prepare(self, checkpoint: CheckpointId) -> None:
        """Nothing: every batch was flushed when it was written."""


def _as_change(value: Any, kind: RowKind) -> str:
    fields = value if isinstance(value, Row | tuple) else (value,)
    return f"{kind.short}({','.join(map(str, fields))})"


def _shown(value: Any, kind: RowKind) -> str:
    text = str(value)
    if kind is RowKind.INSERT:
        return text
    if isinstance(value, Row):
        text = text[text.index("(") : text.rindex(")") + 1]  # its own text begins with its kind
    return kind.short + (text if text.startswith("(") else f"({text})")
