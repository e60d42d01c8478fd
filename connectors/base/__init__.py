"""What several connectors share: fixed lists of splits, ranges of a sequence, threads that fetch, directories and logs that commit in two phases."""

from __future__ import annotations

from tidegate.connectors.base.enumerator import ListEnumerator as ListEnumerator, all_splits as all_splits
from tidegate.connectors.base.fetch_queue import Fetched as Fetched
from tidegate.connectors.base.fetching import Fetcher as Fetcher, FetchingReader as FetchingReader
from tidegate.connectors.base.file_writer import FileWriter as FileWriter, Shape as Shape
from tidegate.connectors.base.output_place import PendingFile as PendingFile
from tidegate.connectors.base.part_file import (
    BulkFormat as BulkFormat,
    Compression as Compression,
    FileEncoder as FileEncoder,
)
from tidegate.connectors.base.pending_files import (
    FileCommitter as FileCommitter,
    pending_files as pending_files,
)
from tidegate.connectors.base.ranges import Pace as Pace, RangeReader as RangeReader, RangeSplit as RangeSplit
from tidegate.connectors.base.rolling import Compaction as Compaction, RollingPolicy as RollingPolicy
from tidegate.connectors.base.write_ahead import WriteAheadSink as WriteAheadSink

__all__ = [
    "BulkFormat",
    "Compaction",
    "Compression",
    "Fetched",
    "Fetcher",
    "FetchingReader",
    "FileCommitter",
    "FileEncoder",
    "FileWriter",
    "ListEnumerator",
    "Pace",
    "PendingFile",
    "RangeReader",
    "RangeSplit",
    "RollingPolicy",
    "Shape",
    "WriteAheadSink",
    "all_splits",
    "pending_files",
]
