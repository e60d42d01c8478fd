"""Avro files: rows in compressed blocks after a header with the schema. A position is a row number.

Example:
    >>> AvroFormat(columns=("id",)).columns
    ('id',)
    >>> AvroRows('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}').suffix
    '.avro'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Literal, get_args

from tidegate.connectors.base.part_file import Content, Summed
from tidegate.connectors.files.columnar import row_parts
from tidegate.connectors.files.reading import Piece, check_columns
from tidegate.connectors.files.source import RecordFileSource
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.formats.avro_rows import AvroSchema
from tidegate.errors import ConfigError
from tidegate.types import Kind, TypeInformation

__all__ = ["AvroBulkWriters", "AvroCodec", "AvroFormat", "AvroInputFormat", "AvroRows"]

AvroCodec = Literal["null", "deflate", "bzip2", "xz", "snappy", "zstandard"]

_BLOCK_BYTES: Final = 64_000
"""What Avro's own writers put into a block before it is packed."""


@dataclass(frozen=True)
class AvroFormat:
    """Records of Avro files as dictionaries, cut into parts between blocks.

    Args:
        schema: What records are made to fit, by Avro's rules for schemas that have changed; as written if None.
        columns: The fields that are wanted, the only ones that values are made of; all if None.

    Raises:
        ConfigError: no column is wanted.
    """

    schema: str | AvroSchema | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_columns("Avro", self.columns)

    def parts(self, path: str, most: int) -> list[FileSplit]:
        """Blocks of about this total size in bytes."""
        from tidegate.connectors.files import _client

        return row_parts(path, [(block.rows, block.size) for block in _client.layout(path).blocks], most)

    def read(self, split: FileSplit) -> Iterator[Piece]:
        """The rows of a part."""
        from tidegate.connectors.files import _client

        wanted = None if self.schema is None else str(self.schema)
        return _client.pieces(split, wanted, self.columns)


@dataclass(frozen=True)
class AvroRows:
    """Dictionaries, rows or tuples as records of Avro files.

    Args:
        schema: That of a record; a field that a dictionary lacks has its default, one that it has too many is refused.
        codec: How blocks are packed.
        block_bytes: Minimum size of a block before compression, if the file is large enough.

    Raises:
        ConfigError: it is not the schema of a record, the codec is unknown, or a number is out of range.
        MissingExtraError: fastavro is not installed.
    """

    schema: str | AvroSchema
    codec: AvroCodec = "deflate"
    block_bytes: int = _BLOCK_BYTES

    suffix = ".avro"

    def __post_init__(self) -> None:
        from tidegate.connectors.files import _client

        _client.field_names(str(self.schema))
        if self.codec not in get_args(AvroCodec):
            raise ConfigError(
                f"AvroRows codec is {self.codec!r}; expected one of {', '.join(get_args(AvroCodec))}"
            )
        if self.block_bytes < 1:
            raise ConfigError(f"block_bytes is {self.block_bytes}; expected at least 1")

    def encode(self, values: list[Any]) -> tuple[int, bytes]:
        """How many records, and all of them as bytes.

        Raises:
            RecordError: one does not match the schema, or would not come back the same.
        """
        from tidegate.connectors.files import _client

        return len(values), _client.encoded(values, str(self.schema))

    def open(self, file: Summed) -> Content:
        """A new file."""
        from tidegate.connectors.files import _client

        return _client.AvroContent(file, str(self.schema), self.codec, self.block_bytes)

    def merge(self, sources: Sequence[IO[bytes]], file: Summed) -> None:
        """The records of several files in one, in larger blocks."""
        from tidegate.connectors.files import _client

        content = self.open(file)
        for source in sources:
            for values in _client.values_of(source, str(self.schema)):
                content.write(self.encode(values))
        content.end()


class AvroInputFormat(RecordFileSource):
    """Records of Avro files as dictionaries, under PyFlink's name; for `env.create_input`.

    Args:
        path: A file, or a directory.
        schema: What records are made to fit.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        super().__init__(path, AvroFormat(schema))

    def get_produced_type(self) -> TypeInformation:
        """That of dictionaries."""
        return TypeInformation(Kind.ANY)


class AvroBulkWriters:
    """Where writers of Avro files are made, under PyFlink's name."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroRows:
        """Writes records of a schema, not packed, as Flink does."""
        return AvroRows(schema, "null")
