"""State writer: savepoints from a checkpoint or from scratch, with states added, replaced and removed.

Example:
    >>> from tempfile import TemporaryDirectory
    >>> from tidegate.common import Types
    >>> from tidegate.datastream.state import ValueStateDescriptor
    >>> from tidegate.state_reader import StateReader
    >>> root = TemporaryDirectory()
    >>> balance = ValueStateDescriptor("balance", Types.LONG())
    >>> StateWriter().put("accounts", balance, [("ann", 520), ("bob", 700)]).write(f"{root.name}/start")
    >>> with StateReader(f"{root.name}/start") as reader:
    ...     reader.table("accounts", "balance", key="ann")["value"].to_pylist()
    [520]
    >>> root.cleanup()
"""

from __future__ import annotations

from tidegate.runtime.checkpoint.state_writer import StateWriter as StateWriter

__all__ = ["StateWriter"]
