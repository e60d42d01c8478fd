"""Records to the files of a directory, exactly once."""

from __future__ import annotations

from tidegate.connectors.files.options import FileSinkOptions as FileSinkOptions
from tidegate.connectors.files.serde import JsonLines as JsonLines, TextLines as TextLines
from tidegate.connectors.files.sink import FileSink as FileSink
from tidegate.connectors.files.source import TextFileSource as TextFileSource

__all__ = ["FileSink", "FileSinkOptions", "JsonLines", "TextFileSource", "TextLines"]
