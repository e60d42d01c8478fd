"""Records from files, and to the files of a directory, exactly once."""

from __future__ import annotations

from tidegate.connectors.files.columnar import OrcFormat as OrcFormat, ParquetFormat as ParquetFormat
from tidegate.connectors.files.lines import (
    CsvFormat as CsvFormat,
    JsonFormat as JsonFormat,
    TextFormat as TextFormat,
)
from tidegate.connectors.files.options import FileSinkOptions as FileSinkOptions
from tidegate.connectors.files.reading import FileFormat as FileFormat
from tidegate.connectors.files.serde import JsonLines as JsonLines, TextLines as TextLines
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source import (
    RecordFileSource as RecordFileSource,
    TextFileSource as TextFileSource,
)

__all__ = [
    "CsvFormat",
    "FileFormat",
    "FileSink",
    "FileSinkOptions",
    "JsonFormat",
    "JsonLines",
    "OrcFormat",
    "ParquetFormat",
    "RecordFileSource",
    "TextFileSource",
    "TextFormat",
    "TextLines",
]
