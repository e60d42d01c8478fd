"""CSV files with a schema of columns, under PyFlink's names; a record is a `Row`.

Example:
    >>> schema = CsvSchema.builder().add_number_column("id").add_array_column("tags", ",").set_column_separator("|").build()
    >>> CsvReaderFormat.for_schema(schema).decoder(())([b"7|a,b\\n"])
    [Row(id=7, tags=['a', 'b'])]
    >>> CsvBulkWriters.for_schema(schema).encode([schema.row_of(7, ["a", "b"])])
    b'7|a,b\\n'
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, Self

from tidegate.connectors.files.lines import Decode, LineFormat
from tidegate.connectors.formats.csv_rows import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    Dialect,
)
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row
from tidegate.types import TypeInformation, Types

__all__ = ["CsvBulkWriters", "CsvReaderFormat", "CsvRows", "CsvSchema", "CsvSchemaBuilder"]


@dataclass(frozen=True)
class CsvSchema:
    """Columns, and their format in a line."""

    columns: tuple[tuple[str, TypeInformation], ...]
    dialect: Dialect = Dialect()
    header: bool = False
    strict: bool = False
    skips_row: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """A schema in the making."""
        return CsvSchemaBuilder()

    def get_type_info(self) -> TypeInformation:
        """The type of the rows."""
        return Types.ROW_NAMED(list(self.names), [kind for _, kind in self.columns])

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns are called."""
        return tuple(name for name, _ in self.columns)

    def row_of(self, *values: Any) -> Row:
        """A row of these columns."""
        return Row.of(values, self.names)

    def size(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def __len__(self) -> int:
        return self.size()


class CsvSchemaBuilder:
    """A schema of columns in the making."""

    def __init__(self) -> None:
        self._columns: list[tuple[str, TypeInformation]] = []
        self._separators: list[str | None] = []
        self._schema = CsvSchema(())

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> Self:
        """A column of lists; of texts unless another type is said."""
        return self._add(name, Types.LIST(element_type or Types.STRING()), separator)

    def add_boolean_column(self, name: str) -> Self:
        """A column of truth values."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> Self:
        """A column of numbers; of 64 bits unless another type is said."""
        return self._add(name, number_type or Types.LONG())

    def add_string_column(self, name: str) -> Self:
        """A column of texts."""
        return self._add(name, Types.STRING())

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """The columns of another schema too."""
        for name, kind in schema.columns:
            self._add(name, kind)
        return self

    def clear_columns(self) -> Self:
        """No columns, so far."""
        self._columns, self._separators = [], []
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Lines that start with `#` are not records: a source with `on_error="skip"` skips them."""
        return self._speak(comments=allow)

    def set_array_element_separator(self, separator: str) -> Self:
        """The separator of the elements of a list."""
        self._separators = [separator if each is not None else None for each in self._separators]
        return self._speak(array_delimiter=separator)

    def set_column_separator(self, char: str) -> Self:
        """The separator of fields; a comma by default."""
        return self._speak(delimiter=char)

    def disable_escape_char(self) -> Self:
        """Every character means itself, as by default."""
        return self._speak(escape=None)

    def set_escape_char(self, char: str) -> Self:
        """The escape character."""
        return self._speak(escape=char)

    def set_line_separator(self, separator: str) -> Self:
        r"""What ends a line that is written: `\n` by default, or `\r\n`."""
        if separator not in ("\n", "\r\n"):
            raise ConfigError(
                f"CSV line separator is {separator!r}; expected '\\n' or '\\r\\n', where files are split"
            )
        return self._speak(line=separator)

    def set_null_value(self, null_value: str) -> Self:
        """The null literal; an empty field by default."""
        return self._speak(null=null_value)

    def disable_quote_char(self) -> Self:
        """Quotes mean themselves."""
        return self._speak(quote=None)

    def set_quote_char(self, char: str) -> Self:
        """The quote character of a field that contains a separator."""
        return self._speak(quote=char)

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Skip the first line, after the header if there is one."""
        self._schema = replace(self._schema, skips_row=skip)
        return self

    def set_strict_headers(self, strict: bool = True) -> Self:
        """Refuse files whose header does not name the columns."""
        self._schema = replace(self._schema, strict=strict)
        return self

    def set_use_header(self, use: bool = True) -> Self:
        """Files begin with the names of the columns."""
        self._schema = replace(self._schema, header=use)
        return self

    def size(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def build(self) -> CsvSchema:
        """The schema.

        Raises:
            ConfigError: there is no column, one has two meanings, or lists have different separators.
        """
        names = [name for name, _ in self._columns]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"CSV columns are {names}; expected different names, at least one")
        separators = {each for each in self._separators if each is not None}
        if len(separators) > 1:
            raise ConfigError(
                f"CSV list separators are {sorted(separators)}; expected the same one for all columns"
            )
        if separators:
            self._speak(array_delimiter=separators.pop())
        return replace(self._schema, columns=tuple(self._columns))

    def _add(self, name: str, kind: TypeInformation, separator: str | None = None) -> Self:
        self._columns.append((name, kind))
        self._separators.append(separator)
        return self

    def _speak(self, **changes: Any) -> Self:
        self._schema = replace(self._schema, dialect=replace(self._schema.dialect, **changes))
        return self


@dataclass(frozen=True)
class CsvReaderFormat(LineFormat):
    """Lines as rows; a line break within quotes is refused, as it is indistinguishable from the end of a line."""

    schema: CsvSchema
    charset: str = "UTF-8"

    name = "CSV"

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """What reads files of a schema."""
        return CsvReaderFormat(schema)

    def head_of(self, file: IO[bytes]) -> tuple[bytes, ...]:
        """The header and the row after it, as far as they are skipped."""
        return tuple(file.readline() for _ in range(self.schema.header + self.schema.skips_row))

    def decoder(self, head: tuple[bytes, ...]) -> Decode:
        """Makes rows of them."""
        schema = self.schema
        if schema.header and schema.strict:
            text = head[0].decode(self.charset)
            found = next(csv.reader([text], **schema.dialect.words), [])
            if tuple(found) != schema.names:
                raise ConfigError(f"CSV header is {text!r}; expected the columns {', '.join(schema.names)}")
        read = CsvRowDeserializationSchema(schema.get_type_info(), schema.dialect).deserialize
        return lambda lines: list(_rows(read, lines))


@dataclass(frozen=True)
class CsvRows:
    """Rows, tuples or dictionaries as lines of files."""

    schema: CsvSchema
    suffix: str = ".csv"

    def head(self) -> bytes:
        """The names of the columns, if files begin with them."""
        names = self.schema.names
        texts = Types.ROW_NAMED(list(names), [Types.STRING() for _ in names])
        return (
            CsvRowSerializationSchema(texts, self.schema.dialect).serialize(names)
            if self.schema.header
            else b""
        )

    def encode(self, values: list[Any]) -> bytes:
        """The lines.

        Raises:
            RecordError: a row does not match the columns, or would not be one line.
        """
        write = CsvRowSerializationSchema(self.schema.get_type_info(), self.schema.dialect).serialize
        lines = [write(value) for value in values]
        end = len(self.schema.dialect.line)
        for value, line in zip(values, lines, strict=True):
            if b"\n" in line[:-end] or b"\r" in line[:-end]:
                raise RecordError(
                    f"record {value!r:.80} has a line break, which readers reject; expected one line; map it first"
                )
        return b"".join(lines)


class CsvBulkWriters:
    """Where writers of CSV files are made."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvRows:
        """What writes files of a schema."""
        return CsvRows(schema)


def _rows(read: Any, lines: list[bytes]) -> Iterator[Row]:
    for line in lines:
        try:
            yield read(line)
        except RecordError as error:
            raise ValueError(str(error.__cause__ or error)) from error
