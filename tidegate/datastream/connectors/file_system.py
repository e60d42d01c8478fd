"""Files, under PyFlink's module name."""

from tidegate.connectors.files.output import (
    BucketAssigner as BucketAssigner,
    OutputFileConfig as OutputFileConfig,
    RollingPolicy as RollingPolicy,
)
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source_builder import (
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    StreamFormat as StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]
