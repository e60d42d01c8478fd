"""Schema of a table: its columns, its watermark, its primary key.

Example:
    >>> from tidegate.logical_types import DataTypes
    >>> schema = (
    ...     Schema.new_builder()
    ...     .column("id", DataTypes.BIGINT().not_null())
    ...     .column("price", "DECIMAL(10, 2)")
    ...     .column_by_expression("double_price", "price * 2")
    ...     .column_by_metadata("ts", "TIMESTAMP_LTZ(3)", "timestamp", is_virtual=True)
    ...     .watermark("ts", "ts - INTERVAL '5' SECOND")
    ...     .primary_key("id")
    ...     .build()
    ... )
    >>> print(schema)
    (
      `id` BIGINT NOT NULL,
      `price` DECIMAL(10, 2),
      `double_price` AS price * 2,
      `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
      WATERMARK FOR `ts` AS ts - INTERVAL '5' SECOND,
      CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED
    )
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec

from tidegate.errors import ConfigError, StateCorruptError, StateFormatError
from tidegate.logical_types import TIMESTAMPS, Field, LogicalType, Root, quoted, quoted_name
from tidegate.type_text import parse_type

__all__ = [
    "Column",
    "ComputedColumn",
    "MetadataColumn",
    "PhysicalColumn",
    "PrimaryKey",
    "Schema",
    "SchemaBuilder",
    "WatermarkSpec",
    "check_column",
]

VERSION: Final = 1
"""Of the serial form."""


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """A column that the external system stores."""

    name: str
    type: LogicalType
    comment: str = ""

    def __str__(self) -> str:
        return f"{quoted_name(self.name)} {self.type}{_comment(self.comment)}"


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column that a connector reads from, or writes to, the metadata of a record, such as its partition.

    `key` is the connector's name for it, None if that is the column's name. A virtual column is read and not written.
    """

    name: str
    type: LogicalType
    key: str | None = None
    virtual: bool = False
    comment: str = ""

    @property
    def metadata_key(self) -> str:
        """The connector's name for it."""
        return self.name if self.key is None else self.key

    def __str__(self) -> str:
        source = "" if self.key is None else f" FROM {quoted(self.key)}"
        virtual = " VIRTUAL" if self.virtual else ""
        return f"{quoted_name(self.name)} {self.type} METADATA{source}{virtual}{_comment(self.comment)}"


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column that is computed from others of its row when the table is read; its type follows from the expression."""

    name: str
    expression: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{quoted_name(self.name)} AS {self.expression}{_comment(self.comment)}"


Column: TypeAlias = PhysicalColumn | MetadataColumn | ComputedColumn


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """The column that holds the event time, and the expression whose largest value so far is the watermark."""

    column: str
    expression: str

    def __str__(self) -> str:
        return f"WATERMARK FOR {quoted_name(self.column)} AS {self.expression}"


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """The columns that identify a row; uniqueness is not checked (NOT ENFORCED)."""

    name: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(map(quoted_name, self.columns))
        return f"CONSTRAINT {quoted_name(self.name)} PRIMARY KEY ({names}) NOT ENFORCED"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table in order, its watermark, its primary key.

    Raises:
        ConfigError: a name repeats, or the watermark or the key does not match the columns.
    """

    columns: tuple[Column, ...] = ()
    watermark: WatermarkSpec | None = None
    primary_key: PrimaryKey | None = None

    def __post_init__(self) -> None:
        names = self.names
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(
                f"column {repeated!r} occurs more than once in the schema; got {', '.join(names)}; expected different names"
            )
        for column in self.columns:
            _check_texts(column)
        if self.watermark is not None:
            _check_watermark(self, self.watermark)
        if self.primary_key is not None:
            _check_primary_key(self, self.primary_key)

    @staticmethod
    def new_builder() -> SchemaBuilder:
        """Builds a schema step by step."""
        return SchemaBuilder()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def physical(self) -> tuple[PhysicalColumn, ...]:
        """The physical columns, in order."""
        return tuple(column for column in self.columns if isinstance(column, PhysicalColumn))

    @property
    def metadata(self) -> tuple[MetadataColumn, ...]:
        """The metadata columns, in order."""
        return tuple(column for column in self.columns if isinstance(column, MetadataColumn))

    @property
    def row_type(self) -> LogicalType:
        """The rows of the physical columns."""
        return LogicalType(
            Root.ROW, False, fields=tuple(Field(each.name, each.type) for each in self.physical)
        )

    def column(self, name: str) -> Column:
        """The column of a name.

        Raises:
            ConfigError: none has it.
        """
        check_column(name, self.names, "the schema")
        return self.columns[self.names.index(name)]

    def project(self, names: Sequence[str]) -> Schema:
        """The schema of these physical and metadata columns, in this order.

        The key stays if all its columns do. The watermark stays if its column does; what else its expression reads is the
        caller's concern.

        Raises:
            ConfigError: a name is unknown, repeats, or is that of a computed column.
        """
        columns = tuple(map(self.column, names))
        if computed := next((each for each in columns if isinstance(each, ComputedColumn)), None):
            raise ConfigError(
                f"column {computed.name!r} is computed and cannot be projected; got {computed}; expected the columns that "
                "it is computed from"
            )
        key, watermark = self.primary_key, self.watermark
        return Schema(
            columns,
            watermark if watermark is not None and watermark.column in names else None,
            key if key is not None and set(key.columns) <= set(names) else None,
        )

    def encode(self) -> bytes:
        """The serial form: JSON with a version, types in their SQL form."""
        key, watermark = self.primary_key, self.watermark
        return msgspec.json.encode(
            _SchemaData(
                VERSION,
                [_column_data(column) for column in self.columns],
                None if watermark is None else (watermark.column, watermark.expression),
                None if key is None else (key.name, list(key.columns)),
            )
        )

    @staticmethod
    def decode(data: bytes) -> Schema:
        """The schema of a serial form of this or an earlier version.

        Raises:
            StateFormatError: it is of a newer version.
            StateCorruptError: it is not a schema.
        """
        try:
            version = msgspec.json.decode(data, type=_Versioned).version
            if version > VERSION:
                raise StateFormatError(
                    f"schema: version {version} is newer than supported {VERSION}; upgrade tidegate"
                )
            found = msgspec.json.decode(data, type=_SchemaData)
            return Schema(
                tuple(map(_column, found.columns)),
                None if found.watermark is None else WatermarkSpec(*found.watermark),
                None
                if found.primary_key is None
                else PrimaryKey(found.primary_key[0], tuple(found.primary_key[1])),
            )
        except (msgspec.DecodeError, ConfigError) as error:
            raise StateCorruptError(
                f"schema cannot be read: {error}; expected what Schema.encode made"
            ) from error

    def __str__(self) -> str:
        parts = [*self.columns, *filter(None, (self.watermark, self.primary_key))]
        return "(\n" + ",\n".join(f"  {part}" for part in parts) + "\n)"


class SchemaBuilder:
    """Collects the parts of a schema; PyFlink's `Schema.Builder`.

    A type is a logical type or its SQL form. `build` checks the whole.
    """

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self._watermark: WatermarkSpec | None = None
        self._primary_key: PrimaryKey | None = None

    def from_schema(self, schema: Schema) -> SchemaBuilder:
        """Take over all parts of another schema."""
        self._columns += schema.columns
        if schema.watermark is not None:
            self.watermark(schema.watermark.column, schema.watermark.expression)
        if schema.primary_key is not None:
            self.primary_key_named(schema.primary_key.name, *schema.primary_key.columns)
        return self

    def from_row_data_type(self, data_type: LogicalType | str) -> SchemaBuilder:
        """Take the fields of a ROW as physical columns.

        Raises:
            ConfigError: it is another type.
        """
        row = _typed(data_type)
        if row.root is not Root.ROW:
            raise ConfigError(f"columns cannot be taken from {row}; expected a ROW")
        self._columns += (PhysicalColumn(each.name, each.type, each.description) for each in row.fields)
        return self

    def from_fields(
        self, field_names: Sequence[str], field_data_types: Sequence[LogicalType | str]
    ) -> SchemaBuilder:
        """Take names and types as physical columns.

        Raises:
            ConfigError: they differ in number.
        """
        if len(field_names) != len(field_data_types):
            raise ConfigError(
                f"got {len(field_names)} names and {len(field_data_types)} types; expected as many"
            )
        for name, data_type in zip(field_names, field_data_types, strict=True):
            self.column(name, data_type)
        return self

    def column(self, column_name: str, data_type: LogicalType | str) -> SchemaBuilder:
        """Add a physical column."""
        self._columns.append(PhysicalColumn(column_name, _typed(data_type)))
        return self

    def column_by_expression(self, column_name: str, expr: str) -> SchemaBuilder:
        """Add a computed column."""
        self._columns.append(ComputedColumn(column_name, expr))
        return self

    def column_by_metadata(
        self,
        column_name: str,
        data_type: LogicalType | str,
        metadata_key: str | None = None,
        is_virtual: bool = False,
    ) -> SchemaBuilder:
        """Add a metadata column."""
        self._columns.append(MetadataColumn(column_name, _typed(data_type), metadata_key, is_virtual))
        return self

    def with_comment(self, comment: str) -> SchemaBuilder:
        """Describe the column that was added last.

        Raises:
            ConfigError: there is none.
        """
        if not self._columns:
            raise ConfigError("a comment belongs to the column before it; got none; expected a column first")
        self._columns[-1] = replace(self._columns[-1], comment=comment)
        return self

    def watermark(self, column_name: str, watermark_expr: str) -> SchemaBuilder:
        """Declare the event time.

        Raises:
            ConfigError: it is declared already.
        """
        if self._watermark is not None:
            raise ConfigError(
                f"watermark is declared twice, for {self._watermark.column!r} and {column_name!r}; expected one"
            )
        self._watermark = WatermarkSpec(column_name, watermark_expr)
        return self

    def primary_key(self, *column_names: str) -> SchemaBuilder:
        """Declare the primary key, not enforced; raises as `primary_key_named` does."""
        return self.primary_key_named(f"PK_{'_'.join(column_names)}", *column_names)

    def primary_key_named(self, constraint_name: str, *column_names: str) -> SchemaBuilder:
        """Declare the primary key under a name.

        Raises:
            ConfigError: it is declared already.
        """
        if self._primary_key is not None:
            raise ConfigError(
                f"primary key is declared twice, over {', '.join(self._primary_key.columns)} and "
                f"{', '.join(column_names)}; expected one"
            )
        self._primary_key = PrimaryKey(constraint_name, column_names)
        return self

    def build(self) -> Schema:
        """The schema; raises a ConfigError as `Schema` does."""
        return Schema(tuple(self._columns), self._watermark, self._primary_key)


def check_column(name: str, known: Sequence[str], where: str) -> None:
    """Refuse a name that is not among the known ones.

    Raises:
        ConfigError: with the nearest name.
    """
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"
        raise ConfigError(f"column {name!r} does not exist in {where}; {hint}")


def _check_texts(column: Column) -> None:
    if not column.name:
        raise ConfigError(f"a column has no name; got {column}; expected a name")
    if isinstance(column, ComputedColumn) and not column.expression.strip():
        raise ConfigError(
            f"computed column {column.name!r} has no expression; expected one, such as `price * 2`"
        )


def _check_watermark(schema: Schema, watermark: WatermarkSpec) -> None:
    check_column(watermark.column, schema.names, "the schema, but a watermark is declared for it")
    if not watermark.expression.strip():
        raise ConfigError(
            f"watermark of column {watermark.column!r} has no expression; expected one, such as "
            f"`{watermark.column} - INTERVAL '5' SECOND`"
        )
    column = schema.column(watermark.column)
    if isinstance(column, ComputedColumn):
        return  # the type of its expression is known when the table is planned
    if column.type.root not in TIMESTAMPS or column.type.precision > 3:
        raise ConfigError(
            f"watermark is declared for column {column.name!r} of type {column.type}; expected TIMESTAMP(p) or "
            "TIMESTAMP_LTZ(p) with p from 0 to 3; declare a computed column with a CAST"
        )


def _check_primary_key(schema: Schema, key: PrimaryKey) -> None:
    if not key.columns or len(set(key.columns)) != len(key.columns):
        raise ConfigError(
            f"primary key {key.name!r} is over ({', '.join(key.columns)}); expected one or more different columns"
        )
    for name in key.columns:
        check_column(name, schema.names, f"the schema, but primary key {key.name!r} is over it")
        column = schema.column(name)
        if not isinstance(column, PhysicalColumn):
            kind = "computed" if isinstance(column, ComputedColumn) else "a metadata column"
            raise ConfigError(
                f"primary key {key.name!r} is over column {name!r}, which is {kind}; expected physical columns"
            )
        if column.type.nullable:
            raise ConfigError(
                f"primary key {key.name!r} is over column {name!r} of type {column.type}, which may be NULL; expected "
                f"{column.type.not_null()}"
            )


def _typed(data_type: LogicalType | str) -> LogicalType:
    return parse_type(data_type) if isinstance(data_type, str) else data_type


def _comment(text: str) -> str:
    return f" COMMENT {quoted(text)}" if text else ""


class _Versioned(msgspec.Struct):
    version: int


class _ColumnData(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    kind: Literal["physical", "metadata", "computed"]
    name: str
    type: str = ""
    expression: str = ""
    key: str | None = None
    virtual: bool = False
    comment: str = ""


class _SchemaData(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    version: int
    columns: list[_ColumnData]
    watermark: tuple[str, str] | None = None
    primary_key: tuple[str, list[str]] | None = None


def _column_data(column: Column) -> _ColumnData:
    match column:
        case PhysicalColumn():
            return _ColumnData("physical", column.name, str(column.type), comment=column.comment)
        case MetadataColumn():
            return _ColumnData(
                "metadata",
                column.name,
                str(column.type),
                key=column.key,
                virtual=column.virtual,
                comment=column.comment,
            )
        case ComputedColumn():
            return _ColumnData("computed", column.name, expression=column.expression, comment=column.comment)


def _column(data: _ColumnData) -> Column:
    match data.kind:
        case "physical":
            return PhysicalColumn(data.name, parse_type(data.type), data.comment)
        case "metadata":
            return MetadataColumn(data.name, parse_type(data.type), data.key, data.virtual, data.comment)
        case "computed":
            return ComputedColumn(data.name, data.expression, data.comment)
