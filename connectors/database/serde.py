"""Conversion of database rows to the logical types of a table."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidegate.connectors.database.database import Dialect
from tidegate.errors import RecordError
from tidegate.logical_types import LogicalType, Root
from tidegate.type_values import row_converter

__all__ = ["RowDecoder", "row_decoder"]

RowDecoder: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, ...]]

_FROM_TEXT: Final[dict[Root, Callable[[Any], Any]]] = {
    Root.DATE: datetime.date.fromisoformat,
    Root.TIME: datetime.time.fromisoformat,
    Root.TIMESTAMP: datetime.datetime.fromisoformat,
    Root.TIMESTAMP_LTZ: datetime.datetime.fromisoformat,
    Root.DECIMAL: decimal.Decimal,
    Root.BOOLEAN: bool,
}
"""Types that SQLite does not have."""


def row_decoder(dialect: Dialect, names: tuple[str, ...], types: tuple[LogicalType, ...]) -> RowDecoder:
    """A function that converts database rows to these types without loss.

    Example:
        >>> from tidegate.logical_types import DataTypes
        >>> row_decoder("sqlite", ("paid", "on"), (DataTypes.BOOLEAN(), DataTypes.DATE()))((1, "2024-05-01"))
        (True, datetime.date(2024, 5, 1))
    """
    convert = row_converter(names, types)
    if dialect != "sqlite":
        return convert
    own = [(place, _FROM_TEXT[each.root]) for place, each in enumerate(types) if each.root in _FROM_TEXT]

    def decode(row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for place, parse in own:
            if values[place] is not None:
                try:
                    values[place] = parse(str(values[place]) if parse is decimal.Decimal else values[place])
                except (TypeError, ValueError, ArithmeticError) as error:
                    raise RecordError(
                        f"column {names[place]!r} cannot be read as {types[place]}; got {values[place]!r}"
                    ) from error
        return tuple(convert(tuple(values)))

    return decode
