"""Records from files, and to the files of a directory, exactly once."""

from __future__ import annotations

from tidegate.connectors.files.columnar import OrcFormat as OrcFormat, ParquetFormat as ParquetFormat
from tidegate.connectors.files.lines import (
    CsvFormat as CsvFormat,
    JsonFormat as JsonFormat,
    LineFormat as LineFormat,
    TextFormat as TextFormat,
)
from tidegate.connectors.files.options import FileSinkOptions as FileSinkOptions
from tidegate.connectors.files.output import (
    BucketAssigner as BucketAssigner,
    OutputFileConfig as OutputFileConfig,
    RollingPolicy as RollingPolicy,
)
from tidegate.connectors.files.reading import FileFormat as FileFormat, Piece as Piece
from tidegate.connectors.files.serde import JsonLines as JsonLines, TextLines as TextLines
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source import (
    RecordFileSource as RecordFileSource,
    TextFileSource as TextFileSource,
)
from tidegate.connectors.files.source_builder import (
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    StreamFormat as StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "CsvFormat",
    "FileFormat",
    "FileSink",
    "FileSinkOptions",
    "FileSource",
    "FileSourceBuilder",
    "JsonFormat",
    "JsonLines",
    "LineFormat",
    "OrcFormat",
    "OutputFileConfig",
    "ParquetFormat",
    "Piece",
    "RecordFileSource",
    "RollingPolicy",
    "StreamFormat",
    "TextFileSource",
    "TextFormat",
    "TextLines",
]
