"""File source and file sink, exactly once."""

from __future__ import annotations

from tidegate.connectors.base import Compaction as Compaction, RollingPolicy as RollingPolicy
from tidegate.connectors.files.avro import AvroFormat as AvroFormat, AvroRows as AvroRows
from tidegate.connectors.files.buckets import (
    BucketAssigner as BucketAssigner,
    BucketContext as BucketContext,
    FunctionBuckets as FunctionBuckets,
    HivePartitions as HivePartitions,
    TimeBuckets as TimeBuckets,
)
from tidegate.connectors.files.bulk import OrcRows as OrcRows, ParquetRows as ParquetRows
from tidegate.connectors.files.columnar import OrcFormat as OrcFormat, ParquetFormat as ParquetFormat
from tidegate.connectors.files.csv_format import CsvFormat as CsvFormat
from tidegate.connectors.files.keys import table_sink as table_sink
from tidegate.connectors.files.lines import (
    JsonFormat as JsonFormat,
    LineFormat as LineFormat,
    TextFormat as TextFormat,
)
from tidegate.connectors.files.options import FileSinkOptions as FileSinkOptions
from tidegate.connectors.files.partitions import (
    Partition as Partition,
    PartitionCommit as PartitionCommit,
    PartitionCommitPolicy as PartitionCommitPolicy,
    SuccessFile as SuccessFile,
)
from tidegate.connectors.files.reading import FileFormat as FileFormat
from tidegate.connectors.files.serde import (
    CsvLines as CsvLines,
    JsonLines as JsonLines,
    TextLines as TextLines,
)
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source import (
    RecordFileSource as RecordFileSource,
    TextFileSource as TextFileSource,
)

__all__ = [
    "AvroFormat",
    "AvroRows",
    "BucketAssigner",
    "BucketContext",
    "Compaction",
    "CsvFormat",
    "CsvLines",
    "FileFormat",
    "FileSink",
    "FileSinkOptions",
    "FunctionBuckets",
    "HivePartitions",
    "JsonFormat",
    "JsonLines",
    "LineFormat",
    "OrcFormat",
    "OrcRows",
    "ParquetFormat",
    "ParquetRows",
    "Partition",
    "PartitionCommit",
    "PartitionCommitPolicy",
    "RecordFileSource",
    "RollingPolicy",
    "SuccessFile",
    "TextFileSource",
    "TextFormat",
    "TextLines",
    "TimeBuckets",
    "table_sink",
]
