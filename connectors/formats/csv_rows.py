"""CSV serialization of rows, one per message, under PyFlink's names.

Example:
    >>> from tidegate.types import Types
    >>> orders = Types.ROW([Types.LONG(), Types.STRING(), Types.LIST(Types.INT())])
    >>> CsvRowDeserializationSchema.Builder(orders).build().deserialize(b'1,"a, b",3;4')
    Row(f0=1, f1='a, b', f2=[3, 4])
    >>> CsvRowSerializationSchema.Builder(orders).build().serialize(Row(1, "a, b", [3, 4]))
    b'1,"a, b",3;4\\n'
"""

from __future__ import annotations

import csv
import functools
import io
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import msgspec

from tidegate.connectors.formats.schema import DeserializationSchema, SerializationSchema
from tidegate.connectors.formats.typed import annotation, field_names, inserted, row_type
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row
from tidegate.types import Kind, TypeInformation

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema", "Dialect"]


@dataclass(frozen=True)
class Dialect:
    """The format of fields in a line."""

    delimiter: str = ","
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null: str = ""
    line: str = "\n"
    comments: bool = False

    def __post_init__(self) -> None:
        for what, text in (
            ("field delimiter", self.delimiter),
            ("quote", self.quote),
            ("escape", self.escape),
        ):
            if text is not None and (len(text) != 1 or text in "\r\n"):
                raise ConfigError(f"CSV {what} is {text!r}; expected one character")

    @property
    def words(self) -> dict[str, Any]:
        """The same for the standard library."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "quoting": quoting,
            "escapechar": self.escape,
        }


class _Building:
    """A row type and a dialect in the making."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info
        self._dialect = Dialect()

    def set_field_delimiter(self, delimiter: str) -> Self:
        """The separator of fields; a comma by default."""
        return self._with(delimiter=delimiter)

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """The separator of the elements of a list; a semicolon by default."""
        return self._with(array_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """The quote character of a field that contains a separator."""
        return self._with(quote=c)

    def set_escape_character(self, c: str) -> Self:
        """The escape character."""
        return self._with(escape=c)

    def set_null_literal(self, null_literal: str) -> Self:
        """The null literal; an empty field by default."""
        return self._with(null=null_literal)

    def _with(self, **changes: Any) -> Self:
        self._dialect = replace(self._dialect, **changes)
        return self


class _Reader(_Building):
    """A schema that reads, in the making."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info)
        self._skips = False

    def set_allow_comments(self) -> Self:
        """Refuse lines that begin with `#`, which a source may then skip."""
        return self._with(comments=True)

    def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
        """Let a Kafka source skip messages that cannot be read, and count them."""
        self._skips = ignore_parse_errors
        return self

    def build(self) -> CsvRowDeserializationSchema:
        """The schema.

        Raises:
            ConfigError: the type is not a row, or CSV cannot represent it.
        """
        info = row_type("CsvRowDeserializationSchema", self._type)
        return CsvRowDeserializationSchema(info, self._dialect, self._skips)


class _Writer(_Building):
    """A schema that writes, in the making."""

    def set_line_delimiter(self, delimiter: str) -> Self:
        """What ends a line: a line feed by default, nothing if it is empty."""
        return self._with(line=delimiter)

    def disable_quote_character(self) -> Self:
        """Write no quotes; a field that needs some is refused."""
        return self._with(quote=None)

    def build(self) -> CsvRowSerializationSchema:
        """The schema.

        Raises:
            ConfigError: the type is not a row, or CSV cannot represent it.
        """
        return CsvRowSerializationSchema(row_type("CsvRowSerializationSchema", self._type), self._dialect)


@dataclass(frozen=True)
class CsvRowDeserializationSchema(DeserializationSchema):
    """Rows of lines."""

    row: TypeInformation
    dialect: Dialect = Dialect()
    skips_errors: bool = False

    Builder: ClassVar = _Reader

    def __post_init__(self) -> None:
        _check_flat(self.row)

    @property
    def produced_type(self) -> TypeInformation:
        """The rows."""
        return self.row

    def deserialize(self, message: bytes) -> Row:
        """The row."""
        try:
            return self._read(message.decode())
        except (ValueError, csv.Error) as error:
            raise RecordError(f"message {message!r:.60} is not valid CSV for {self.row}: {error}") from error

    def _read(self, text: str) -> Row:
        dialect, items = self.dialect, self.row.items
        if dialect.comments and text.startswith("#"):
            raise ValueError("it is a comment")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True, **dialect.words))
        if len(lines) != 1 or len(lines[0]) != len(items):
            raise ValueError(
                f"it has {len(lines)} lines and {len(lines[0]) if lines else 0} fields; expected {len(items)}"
            )
        fields = zip(lines[0], self._expected, strict=True)
        return Row.of([_value(text, *expected, dialect) for text, expected in fields], self.row.names)

    @functools.cached_property
    def _expected(self) -> list[tuple[Any, bool]]:
        """What each field is, and whether it is a list."""
        kinds = [item.items[0] if item.kind is Kind.OPTIONAL else item for item in self.row.items]
        return [(annotation(kind), kind.kind is Kind.LIST) for kind in kinds]

    def __reduce__(self) -> tuple[Any, ...]:
        return (CsvRowDeserializationSchema, (self.row, self.dialect, self.skips_errors))


@dataclass(frozen=True)
class CsvRowSerializationSchema(SerializationSchema):
    """Rows as lines."""

    row: TypeInformation
    dialect: Dialect = Dialect()

    Builder: ClassVar = _Writer

    def __post_init__(self) -> None:
        _check_flat(self.row)

    def serialize(self, element: Any) -> bytes:
        """The line."""
        dialect = self.dialect
        fields = inserted("CsvRowSerializationSchema", element, field_names(self.row))
        out = io.StringIO()
        try:
            writer = csv.writer(out, lineterminator=dialect.line, **dialect.words)
            writer.writerow([_text(value, dialect) for value in fields])
        except (csv.Error, TypeError) as error:
            raise RecordError(
                f"record {element!r:.80} cannot be written as CSV ({error}); map it first"
            ) from error
        return out.getvalue().encode()


def _value(text: str, kind: Any, listed: bool, dialect: Dialect) -> Any:
    if text == dialect.null:
        return None
    return msgspec.convert(text.split(dialect.array_delimiter) if listed else text, kind, strict=False)


def _text(value: Any, dialect: Dialect) -> str:
    match value:
        case None:
            return dialect.null
        case bool():
            return str(value).lower()
        case str():
            return value
        case list():
            return dialect.array_delimiter.join(_text(item, dialect) for item in value)
        case dict() | Row() | tuple():
            raise TypeError(f"a field is {type(value).__name__}")
    return str(msgspec.to_builtins(value, builtin_types=(float,)))


def _check_flat(info: TypeInformation) -> None:
    annotation(info)
    for item in info.items:
        if nested := [each for each in item.walk() if each.kind in (Kind.ROW, Kind.MAP, Kind.TUPLE)]:
            raise ConfigError(
                f"CSV cannot represent {nested[0]} within a row; expected plain fields and lists of them"
            )
