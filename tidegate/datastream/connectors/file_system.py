"""Files, under PyFlink's module name."""

from tidegate.connectors.files import (
    BucketAssigner as BucketAssigner,
    FileSink as FileSink,
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    OutputFileConfig as OutputFileConfig,
    RollingPolicy as RollingPolicy,
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
