"""Rows of a declared type or Avro schema in Parquet and ORC files, under PyFlink's names.

Example:
    >>> from tidegate.types import Types
    >>> orders = Types.ROW_NAMED(["id", "user"], [Types.LONG(), Types.STRING()])
    >>> ParquetBulkWriters.for_row_type(orders).schema.names
    ['id', 'user']
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.arrow_rows import ArrowRows
from tidegate.arrow_schema import arrow_type
from tidegate.connectors.files.bulk import OrcRows, ParquetRows
from tidegate.connectors.files.columnar import ParquetFormat
from tidegate.connectors.files.reading import Piece
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.formats.avro_rows import AvroSchema
from tidegate.connectors.formats.typed import field_names, row_type as rows_of
from tidegate.errors import ConfigError
from tidegate.type_mapping import logical_type
from tidegate.types import Kind, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "OrcBulkWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]


class ParquetColumnarRowInputFormat:
    """Rows of Parquet files; only the columns that the type names are read.

    Args:
        row_type: The rows, by `Types.ROW_NAMED`.
        hadoop_config: Not used.
        batch_size: Not used; batches follow the load.
        is_utc_timestamp: Not used; times are as the file has them.
        is_case_sensitive: Names are; False is refused.

    Raises:
        ConfigError: the type is not a named row, or case-insensitive names are requested.
    """

    def __init__(
        self,
        row_type: TypeInformation,
        hadoop_config: Any = None,
        batch_size: int = 2_048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if not is_case_sensitive:
            raise ConfigError(
                "ParquetColumnarRowInputFormat matches column names case-sensitively; omit is_case_sensitive"
            )
        self._names = field_names(rows_of("ParquetColumnarRowInputFormat", row_type))
        self._format = ParquetFormat(self._names)

    def parts(self, path: str, most: int) -> list[FileSplit]:
        """Row groups of about this total size in bytes."""
        return self._format.parts(path, most)

    def read(self, split: FileSplit) -> Iterator[Piece]:
        """The rows of a part."""
        for piece in self._format.read(split):
            assert isinstance(piece.values, ArrowRows)
            yield Piece(ArrowRows(piece.values.record_batch, "row"), piece.bounds)


class ParquetBulkWriters:
    """Where writers of Parquet files are made."""

    @staticmethod
    def for_row_type(
        row_type: TypeInformation, hadoop_config: Any = None, utc_timestamp: bool = False
    ) -> ParquetRows:
        """Writes rows of a type; the other arguments are not used."""
        return ParquetRows(_schema(rows_of("ParquetBulkWriters", row_type)))


class OrcBulkWriters:
    """Where writers of ORC files are made."""

    @staticmethod
    def for_row_type(
        row_type: TypeInformation,
        writer_properties: Mapping[str, str] | None = None,
        hadoop_config: Any = None,
    ) -> OrcRows:
        """Writes rows of a type; the other arguments are not used."""
        return OrcRows(_schema(rows_of("OrcBulkWriters", row_type)))


class AvroParquetReaders:
    """Factory of readers of Parquet files whose columns are selected by an Avro schema."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ParquetFormat:
        """Reads the schema's fields, as dictionaries."""
        return ParquetFormat(tuple(field["name"] for field in _record(schema)["fields"]))


class AvroParquetWriters:
    """Factory of writers of Parquet files whose columns follow an Avro schema."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ParquetRows:
        """Writes dictionaries with the schema's fields.

        Raises:
            ConfigError: it is not the schema of a record, or has a field that Parquet does not preserve.
        """
        import pyarrow as pa

        return ParquetRows(pa.schema([_avro_field(field) for field in _record(schema)["fields"]]))


def _schema(info: TypeInformation) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(_fields(info))


def _fields(info: TypeInformation) -> list[tuple[str, pa.DataType]]:
    return [(name, _column(item)) for name, item in zip(field_names(info), info.items, strict=True)]


def _column(info: TypeInformation) -> pa.DataType:
    """What holds values of a type."""
    import pyarrow as pa

    inner = [_column(item) for item in info.items] if info.kind is not Kind.ROW else []
    match info.kind:
        case Kind.ROW:
            return pa.struct(_fields(info))
        case Kind.OPTIONAL:
            return inner[0]
        case Kind.LIST:
            return pa.list_(inner[0])
        case Kind.MAP:
            return pa.map_(*inner)
    if info.kind is Kind.FLOAT:
        return pa.float64()
    with suppress(ConfigError):
        found = arrow_type(logical_type(info))
        if not pa.types.is_struct(found):
            return found
    raise ConfigError(f"type {info} cannot be a column; expected numbers, strings, times, lists or rows")


def _record(schema: AvroSchema) -> Any:
    found = json.loads(schema.text)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise ConfigError(
            f"Avro schema {schema.text:.80} is not a record; expected the schema of a record for Parquet rows"
        )
    return found


def _avro_field(field: Mapping[str, Any]) -> pa.Field:
    """A field as a column; a union with null is what may be null."""
    import pyarrow as pa

    kind = field["type"]
    others = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    if len(others) != 1:
        raise ConfigError(
            f"Avro field {field['name']!r} is a union of {kind}; expected one type, or one type and null"
        )
    return pa.field(field["name"], _avro_column(others[0], field["name"]), nullable=isinstance(kind, list))


def _avro_column(kind: Any, name: str) -> pa.DataType:
    import pyarrow as pa

    plain = {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "bytes": pa.binary(),
        "enum": pa.string(),
        "date": pa.date32(),
        "time-millis": pa.time32("ms"),
        "time-micros": pa.time64("us"),
        "timestamp-millis": pa.timestamp("ms", "UTC"),
        "timestamp-micros": pa.timestamp("us", "UTC"),
        "local-timestamp-millis": pa.timestamp("ms"),
        "local-timestamp-micros": pa.timestamp("us"),
    }
    said = kind if isinstance(kind, dict) else {"type": kind}
    match said.get("logicalType"), said["type"]:
        case "decimal", _:
            return pa.decimal128(said["precision"], said.get("scale", 0))
        case str(logical), _ if logical in plain:
            return plain[logical]
        case _, "record":
            return pa.struct([_avro_field(field) for field in said["fields"]])
        case _, "array":
            item = _avro_field({"name": "element", "type": said["items"]})
            return pa.list_(item)
        case _, str(basic) if basic in plain:
            return plain[basic]
    raise ConfigError(
        f"Avro field {name!r} is of type {kind}; expected numbers, strings, bytes, times, lists or records"
    )
