"""Files as Spark tables: rows as JSON or text lines, and rows of every readable format.

Example:
    >>> FileRows().sink({"path": "/data/out"}, "0", ["id"]).encoder.suffix
    '.jsonl'
    >>> FileRows().source({"path": "/data/in", "format": "text"}, bounded=True).bounded
    True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tidegate.connectors.base import FileEncoder
from tidegate.connectors.files.avro import AvroFormat
from tidegate.connectors.files.columnar import OrcFormat, ParquetFormat
from tidegate.connectors.files.lines import JsonFormat, TextFormat
from tidegate.connectors.files.options import FileSinkOptions
from tidegate.connectors.files.reading import FileFormat
from tidegate.connectors.files.serde import JsonLines, TextLines
from tidegate.connectors.files.sink import FileSink
from tidegate.connectors.files.source import RecordFileSource
from tidegate.errors import ConfigError
from tidegate.options import Layer, load, option

__all__ = ["FileRows"]

_LAYER = "the options of connector files"


@dataclass(frozen=True)
class _Sink:
    path: str = option("path", "", "the directory")
    format: Literal["json", "text"] = option("format", "json", "format of lines")
    prefix: str = option("prefix", "part", "prefix of file names")
    take_over: bool = option("take_over", False, "take over the directory from the query that claimed it")


@dataclass(frozen=True)
class _Source:
    path: str = option("path", "", "a file or directory")
    format: Literal["json", "text", "parquet", "orc", "avro"] = option(
        "format", "json", "format of the files"
    )
    part_bytes: int = option("part_bytes", 64 * 1024 * 1024, "approximate size that one task reads at a time")
    watch_ms: int = option("watch_ms", 1_000, "how often a streaming query looks for new files")


@dataclass(frozen=True)
class _TextColumn:
    """Lines of text from rows with one column."""

    column: str
    suffix: str = ".txt"

    def encode(self, values: list[Any]) -> bytes:
        return TextLines().encode([row[self.column] for row in values])


class FileRows:
    """Makes sources and sinks of options."""

    columns = None

    def source(self, options: Mapping[str, str], *, bounded: bool) -> RecordFileSource:
        """Dictionaries, or lines of text; a streaming query reads existing files and then discovers new ones.

        Raises:
            ConfigError: an option is unknown, missing or wrong.
        """
        said = load(_Source, Layer(_LAYER, options))
        formats: dict[str, FileFormat] = {
            "json": JsonFormat(),
            "text": TextFormat(),
            "parquet": ParquetFormat(),
            "orc": OrcFormat(),
            "avro": AvroFormat(),
        }
        watch_ms = None if bounded else said.watch_ms
        return RecordFileSource(_path(said.path), formats[said.format], said.part_bytes, watch_ms)

    def sink(self, options: Mapping[str, str], lane: str, columns: Sequence[str]) -> FileSink:
        """Lines of JSON with all columns, or of text with the only one; lanes differ by the name of the operator.

        Raises:
            ConfigError: an option is unknown, missing or wrong, or there are several columns for text.
        """
        said = load(_Sink, Layer(_LAYER, options))
        encoder: FileEncoder = JsonLines()
        if said.format == "text":
            if len(columns) != 1:
                raise ConfigError(
                    f"connector files writes one string column as text; got {', '.join(columns)}; select one "
                    "column, or set the format to json"
                )
            encoder = _TextColumn(columns[0])
        return FileSink(
            _path(said.path), encoder, FileSinkOptions(prefix=said.prefix, take_over=said.take_over)
        )


def _path(said: str) -> str:
    if not said:
        raise ConfigError("connector files has no path; set the option path")
    return said
