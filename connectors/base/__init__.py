"""What several connectors share: fixed lists of splits, ranges of a sequence, directories and logs that commit in two phases."""

from __future__ import annotations

from tidegate.connectors.base.enumerator import ListEnumerator as ListEnumerator, all_splits as all_splits
from tidegate.connectors.base.pending_files import (
    FileCommitter as FileCommitter,
    FileEncoder as FileEncoder,
    FileWriter as FileWriter,
    PendingFile as PendingFile,
)
from tidegate.connectors.base.ranges import Pace as Pace, RangeReader as RangeReader, RangeSplit as RangeSplit
from tidegate.connectors.base.write_ahead import WriteAheadSink as WriteAheadSink

__all__ = [
    "FileCommitter",
    "FileEncoder",
    "FileWriter",
    "ListEnumerator",
    "Pace",
    "PendingFile",
    "RangeReader",
    "RangeSplit",
    "WriteAheadSink",
    "all_splits",
]
