"""Records to standard output, to look at."""

from __future__ import annotations

from tidegate.connectors.print.sink import PrintSink as PrintSink

__all__ = ["PrintSink"]
