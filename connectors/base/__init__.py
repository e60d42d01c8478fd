"""What several connectors share: fixed lists of splits, ranges of a sequence, directories that commit in two phases."""

from __future__ import annotations

from tidegate.connectors.base.enumerator import ListEnumerator as ListEnumerator
from tidegate.connectors.base.pending_files import FileCommitter as FileCommitter
from tidegate.connectors.base.pending_files import FileEncoder as FileEncoder
from tidegate.connectors.base.pending_files import FileWriter as FileWriter
from tidegate.connectors.base.pending_files import PendingFile as PendingFile
from tidegate.connectors.base.ranges import Pace as Pace
from tidegate.connectors.base.ranges import RangeReader as RangeReader
from tidegate.connectors.base.ranges import RangeSplit as RangeSplit

__all__ = [
    "FileCommitter",
    "FileEncoder",
    "FileWriter",
    "ListEnumerator",
    "Pace",
    "PendingFile",
    "RangeReader",
    "RangeSplit",
]
