"""File connector, under PyFlink's module name."""

from tidegate.connectors.base import RollingPolicy as RollingPolicy
from tidegate.connectors.files.buckets import BucketAssigner as BucketAssigner
from tidegate.connectors.files.output import (
    FileCompactor as FileCompactor,
    FileCompactStrategy as FileCompactStrategy,
    OutputFileConfig as OutputFileConfig,
)
from tidegate.connectors.files.reading import FileFormat as BulkFormat
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source_builder import (
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    StreamFormat as StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "FileCompactStrategy",
    "FileCompactor",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]
