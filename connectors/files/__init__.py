"""Records to the files of a directory, exactly once."""

from __future__ import annotations

from tidegate.connectors.files.options import FileSinkOptions as FileSinkOptions
from tidegate.connectors.files.output import (
    BucketAssigner as BucketAssigner,
    OutputFileConfig as OutputFileConfig,
    RollingPolicy as RollingPolicy,
)
from tidegate.connectors.files.serde import JsonLines as JsonLines, TextLines as TextLines
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source import TextFileSource as TextFileSource
from tidegate.connectors.files.source_builder import (
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    StreamFormat as StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "FileSink",
    "FileSinkOptions",
    "FileSource",
    "FileSourceBuilder",
    "JsonLines",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "TextFileSource",
    "TextLines",
]
