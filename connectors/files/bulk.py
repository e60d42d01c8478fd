"""Bulk formats Parquet and ORC: a file is complete only when it is closed, so it is closed at each checkpoint.

Example:
    >>> import pyarrow as pa
    >>> ParquetRows(pa.schema({"id": pa.int64()})).encode([{"id": 1}, {"id": 2}]).to_pylist()
    [{'id': 1}, {'id': 2}]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from tidegate.arrow_rows import ArrowRows
from tidegate.connectors.base.part_file import Content, Summed
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OrcRows", "ParquetRows"]


@dataclass(frozen=True)
class ParquetRows:
    """Dictionaries, rows or tuples as rows of Parquet files.

    Args:
        schema: The columns; a field that a dictionary lacks is null, one that it has too many is refused.
        compression: `snappy`, `zstd`, `gzip`, `brotli`, `lz4` or `none`.
        row_group_rows: Minimum number of rows of a row group, if the file is large enough.

    Raises:
        ConfigError: there is no column, the compression is unknown, or a number is out of range.
    """

    schema: pa.Schema
    compression: str = "snappy"
    row_group_rows: int = 131_072

    suffix = ".parquet"

    def __post_init__(self) -> None:
        _check(self, ("snappy", "zstd", "gzip", "brotli", "lz4", "none"))
        if self.row_group_rows < 1:
            raise ConfigError(f"row_group_rows is {self.row_group_rows}; expected at least 1")

    def encode(self, values: list[Any]) -> pa.RecordBatch:
        """The rows as columns.

        Raises:
            RecordError: a row does not match the schema.
        """
        from tidegate.connectors.files import _arrow

        return _arrow.encoded(values, self.schema)

    def encode_arrow(self, rows: ArrowRows) -> pa.RecordBatch | None:
        """The columns as they are if the schema wants these."""
        from tidegate.connectors.files import _arrow

        return _arrow.conforming(rows, self.schema)

    def open(self, file: Summed) -> Content:
        """A new file."""
        from tidegate.connectors.files import _arrow

        return _arrow.ParquetContent(file, self.schema, self.compression, self.row_group_rows)

    def merge(self, sources: Sequence[IO[bytes]], file: Summed) -> None:
        """The rows of several files in one, in larger row groups."""
        from tidegate.connectors.files import _arrow

        _arrow.merge(sources, self.open(file), "parquet")


@dataclass(frozen=True)
class OrcRows:
    """Dictionaries, rows or tuples as rows of ORC files.

    Args:
        schema: The columns; a field that a dictionary lacks is null, one that it has too many is refused.
        compression: `snappy`, `zstd`, `zlib`, `lz4` or `uncompressed`.

    Raises:
        ConfigError: there is no column, or the compression is unknown.
    """

    schema: pa.Schema
    compression: str = "snappy"

    suffix = ".orc"

    def __post_init__(self) -> None:
        _check(self, ("snappy", "zstd", "zlib", "lz4", "uncompressed"))

    def encode(self, values: list[Any]) -> pa.RecordBatch:
        """The rows as columns.

        Raises:
            RecordError: a row does not match the schema.
        """
        from tidegate.connectors.files import _arrow

        return _arrow.encoded(values, self.schema)

    def encode_arrow(self, rows: ArrowRows) -> pa.RecordBatch | None:
        """The columns as they are if the schema wants these."""
        from tidegate.connectors.files import _arrow

        return _arrow.conforming(rows, self.schema)

    def open(self, file: Summed) -> Content:
        """A new file."""
        from tidegate.connectors.files import _arrow

        return _arrow.OrcContent(file, self.schema, self.compression)

    def merge(self, sources: Sequence[IO[bytes]], file: Summed) -> None:
        """The rows of several files in one."""
        from tidegate.connectors.files import _arrow

        _arrow.merge(sources, self.open(file), "orc")


def _check(rows: ParquetRows | OrcRows, compressions: tuple[str, ...]) -> None:
    schema, name = rows.schema, type(rows).__name__
    if rows.compression not in compressions:
        raise ConfigError(
            f"{name} compression is {rows.compression!r}; expected one of {', '.join(compressions)}"
        )
    if not schema.names or len(set(schema.names)) != len(schema.names):
        raise ConfigError(
            f"{name} columns are {', '.join(schema.names) or 'none'}; expected different names, at least one"
        )
