"""Table factory `datagen`: rows of generated values, under Flink's option keys.

A table without an end, unless `number-of-rows` or a field of kind `sequence` gives it one. Values are never NULL.

Example:
    >>> from tidegate.connectors.table_spi import TableDescription, table_source
    >>> from tidegate.schema import Schema
    >>> schema = Schema.new_builder().column("id", "INT").column("name", "CHAR(3)").build()
    >>> options = {"connector": "datagen", "fields.id.kind": "sequence", "fields.id.start": "1", "fields.id.end": "5"}
    >>> source = table_source(TableDescription("users", schema, options)).scan()
    >>> source.count, source.function(0)
    (5, (1, '63b'))
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from tidegate.changelog import ChangelogMode
from tidegate.connectors.generator.fields import (
    Ascending,
    FieldKind,
    FieldValues,
    OneOf,
    RandomFloat,
    RandomInt,
    RandomText,
    count_of,
)
from tidegate.connectors.generator.source import GeneratorSource
from tidegate.connectors.table_spi import ScanTableSource, TableDescription
from tidegate.errors import ConfigError
from tidegate.logical_types import INTEGERS, LogicalType, Root
from tidegate.options import Layer, check_ranges, load, option, prefixed
from tidegate.schema import PhysicalColumn, check_column

__all__ = ["DataGenTable", "DataGenTableOptions", "DataGenTableSource"]

_SPLITS: Final = 16
_TEXT: Final = 100
_BITS: Final = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}
_FLOAT: Final = struct.Struct("f")
_LARGEST: Final = {Root.FLOAT: (2 - 2**-23) * 2.0**127, Root.DOUBLE: sys.float_info.max}
_KNOWN: Final = (*sorted(INTEGERS), Root.FLOAT, Root.DOUBLE, Root.CHAR, Root.VARCHAR, "STRING", Root.BOOLEAN)


@dataclass(frozen=True)
class DataGenTableOptions:
    """Options of a table; those of a column depend on its type."""

    rows_per_second: int = option("rows-per-second", 10_000, "at most so many rows a second, of all readers")
    number_of_rows: int | None = option(
        "number-of-rows", None, "how many rows there are; without an end if unset", least=0
    )
    parallelism: int | None = option(
        "scan.parallelism", None, "how many readers there are; as the job if unset"
    )
    fields: Mapping[str, str] = prefixed(
        "fields.", "`<column>.kind`, `.min`, `.max`, `.start`, `.end`, `.length` of a column"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class _Integers:
    kind: Literal["random", "sequence"] = option(
        "kind", "random", "random values, or ascending ones that end"
    )
    min: int | None = option("min", None, "the smallest random value; the smallest of the type if unset")
    max: int | None = option("max", None, "the largest random value; the largest of the type if unset")
    start: int | None = option("start", None, "the first value of a sequence")
    end: int | None = option("end", None, "the last value of a sequence")

    def values(self, type: LogicalType, where: str) -> FieldKind:
        """The kind that these describe."""
        limit = 1 << _BITS[type.root]
        random, sequence = (self.min, self.max), (self.start, self.end)
        other = random if self.kind == "sequence" else sequence
        if other != (None, None):
            names = "min and max" if self.kind == "sequence" else "start and end"
            raise ConfigError(f"{where}: {names} do not go with kind {self.kind!r}; expected none of them")
        if beyond := next(
            (each for each in (*random, *sequence) if each and not -limit <= each < limit), None
        ):
            raise ConfigError(f"{where}: {beyond} is out of range; expected a value of {type}")
        if self.kind == "random":
            low, high = random
            return RandomInt(-limit if low is None else low, limit - 1 if high is None else high)
        if self.start is None or self.end is None:
            raise ConfigError(
                f"{where}: a sequence needs a first and a last value; expected 'start' and 'end'"
            )
        return Ascending(self.start, self.end)


@dataclass(frozen=True)
class _Floats:
    kind: Literal["random"] = option("kind", "random", "random values")
    min: float = option("min", 0.0, "the smallest value")
    max: float | None = option("max", None, "above the largest value; the largest of the type if unset")

    def values(self, type: LogicalType, where: str) -> FieldKind:
        """The kind that these describe."""
        largest = _LARGEST[type.root]
        high = largest if self.max is None else self.max
        if not (-largest <= self.min <= high <= largest) or high - self.min > largest:
            raise ConfigError(
                f"{where}: {self.min} to {high} is out of range; expected values of {type}, min to max"
            )
        made = RandomFloat(self.min, high)
        return _Single(made) if type.root is Root.FLOAT else made


@dataclass(frozen=True)
class _Texts:
    kind: Literal["random"] = option("kind", "random", "random values")
    length: int | None = option(
        "length", None, f"how many characters; those of a CHAR, {_TEXT} or fewer if unset"
    )

    def values(self, type: LogicalType, where: str) -> FieldKind:
        """The kind that these describe."""
        fixed = type.root is Root.CHAR
        length = (
            (type.precision if fixed else min(type.precision, _TEXT)) if self.length is None else self.length
        )
        if not 1 <= length <= type.precision or (fixed and length != type.precision):
            raise ConfigError(
                f"{where}: length {length} is out of range of {type}; expected {'' if fixed else '1 to '}{type.precision}"
            )
        return RandomText(length)


@dataclass(frozen=True)
class _Booleans:
    kind: Literal["random"] = option("kind", "random", "random values")

    def values(self, type: LogicalType, where: str) -> FieldKind:
        """The kind that these describe."""
        return OneOf((False, True))


@dataclass(frozen=True)
class _Single(FieldKind):
    """Floats of 32 bits."""

    wide: FieldKind

    def __call__(self, number: int, chance: int) -> float:
        """The nearest one."""
        found: float = _FLOAT.unpack(_FLOAT.pack(self.wide(number, chance)))[0]
        return found


_Field: TypeAlias = type[_Integers] | type[_Floats] | type[_Texts] | type[_Booleans]
_FIELDS: Final[dict[Root, _Field]] = {
    **dict.fromkeys(INTEGERS, _Integers),
    Root.FLOAT: _Floats,
    Root.DOUBLE: _Floats,
    Root.CHAR: _Texts,
    Root.VARCHAR: _Texts,
    Root.BOOLEAN: _Booleans,
}


@dataclass(frozen=True)
class DataGenTableSource(ScanTableSource):
    """Generated rows; columns that are projected away are not generated, and a limit is a number of rows."""

    fields: Mapping[str, FieldKind]
    count: int | None
    rows_per_second: int
    parallelism: int | None

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Insertions."""
        return ChangelogMode.insert_only()

    def with_projection(self, columns: Sequence[str]) -> DataGenTableSource:
        """The same values in these columns."""
        return replace(self, fields={name: self.fields[name] for name in columns})

    def with_limit(self, rows: int) -> DataGenTableSource:
        """At most so many rows in all."""
        return replace(self, count=rows if self.count is None else min(rows, self.count))

    def scan(self) -> GeneratorSource[tuple[Any, ...]]:
        """A row for each number."""
        return GeneratorSource(FieldValues(self.fields), self.count, _SPLITS, self.rows_per_second)


class DataGenTable:
    """Makes table sources of generated values."""

    options: ClassVar[type[Any]] = DataGenTableOptions

    def source(self, table: TableDescription, options: DataGenTableOptions) -> DataGenTableSource:
        """A source of the physical columns.

        Raises:
            ConfigError: the type of a column cannot be generated, or an option of a column is invalid for its type.
        """
        columns = table.schema.physical
        if not columns:
            raise ConfigError(f"table {table.name} has no physical column; expected one or more to generate")
        of_column: dict[str, dict[str, str]] = {column.name: {} for column in columns}
        for key, value in options.fields.items():
            name, _, own = key.rpartition(".")
            check_column(name, tuple(of_column), f"table {table.name}, but option 'fields.{key}' is of it")
            of_column[name][own] = value
        fields = {column.name: _kind(table, column, of_column[column.name]) for column in columns}
        count = count_of(fields.values(), options.number_of_rows)
        return DataGenTableSource(fields, count, options.rows_per_second, options.parallelism)


def _kind(table: TableDescription, column: PhysicalColumn, options: Mapping[str, str]) -> FieldKind:
    """How the values of a column are made."""
    declared = _FIELDS.get(column.type.root)
    if declared is None:
        raise ConfigError(
            f"column {column.name!r} of table {table.name} is of type {column.type}, which connector 'datagen' cannot "
            f"generate; expected one of {', '.join(_KNOWN)}; use a computed column"
        )
    where = f"the options fields.{column.name} of table {table.name}"
    return load(declared, Layer(where, options)).values(column.type, where)
