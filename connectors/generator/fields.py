"""Rows made field by field: ascending or random values, as many a second as wanted, stored nowhere.

Guarantee: replayable; every value follows from its row's number, so a row that is read again is the same, random or not.

Example:
    >>> source = DataGenSource({"id": Ascending(1, 1_000), "amount": RandomInt(1, 1_000), "text": RandomText(10)})
    >>> source.count
    1000
    >>> source.function(0).id, source.function(0) == source.function(0)
    (1, True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from tidegate.connectors.generator.source import GeneratorSource
from tidegate.errors import ConfigError
from tidegate.row import Row

__all__ = [
    "Ascending",
    "DataGenSource",
    "FieldKind",
    "FieldValues",
    "OneOf",
    "RandomFloat",
    "RandomInt",
    "RandomText",
    "count_of",
]


class FieldKind(ABC):
    """Makes the values of a field; subclass it for other kinds."""

    @abstractmethod
    def __call__(self, number: int, chance: int) -> Any:
        """The value in a row, of its number and of another that looks random and is the same each time."""


@dataclass(frozen=True)
class Ascending(FieldKind):
    """The integers from `start` to `end`, both included; rows end with the shortest of these."""

    start: int
    end: int

    def __post_init__(self) -> None:
        _check_order(self, self.start, self.end)

    def __call__(self, number: int, chance: int) -> int:
        """The next one."""
        return self.start + number


@dataclass(frozen=True)
class RandomInt(FieldKind):
    """Integers between `low` and `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_order(self, self.low, self.high)

    def __call__(self, number: int, chance: int) -> int:
        """One of them."""
        return self.low + chance % (self.high - self.low + 1)


@dataclass(frozen=True)
class RandomFloat(FieldKind):
    """Numbers from `low` on and below `high`."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_order(self, self.low, self.high)

    def __call__(self, number: int, chance: int) -> float:
        """One of them."""
        return self.low + (chance >> 11) / 2**53 * (self.high - self.low)


@dataclass(frozen=True)
class RandomText(FieldKind):
    """Hexadecimal digits."""

    length: int = 100

    def __post_init__(self) -> None:
        _check_order(self, 1, self.length)

    def __call__(self, number: int, chance: int) -> str:
        """Some digits."""
        parts = range(0, self.length, 16)
        return "".join(f"{_chance(f'{chance}', part):016x}" for part in parts)[: self.length]


@dataclass(frozen=True)
class OneOf(FieldKind):
    """Some of these values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        _check_order(self, 1, len(self.values))

    def __call__(self, number: int, chance: int) -> Any:
        """One of them."""
        return self.values[chance % len(self.values)]


class DataGenSource(GeneratorSource[Row]):
    """Rows with a generated value in each field.

    Args:
        fields: What kind each field is of, by its name, in the order of the row.
        rows_per_second: At most so many; as fast as possible if None.
        count: How many rows there are; if None as many as the shortest `Ascending` has, or for ever without one.
        splits: Into how many parts they are cut.

    Raises:
        ConfigError: there is no field, a number makes no sense, or there are fewer ascending values than rows.
    """

    def __init__(
        self,
        fields: Mapping[str, FieldKind],
        rows_per_second: float | None = None,
        count: int | None = None,
        splits: int = 16,
    ) -> None:
        if not fields:
            raise ConfigError(
                "data generator has no fields; expected one or more, such as {'id': Ascending(1, 10)}"
            )
        super().__init__(_Rows(dict(fields)), count_of(fields.values(), count), splits, rows_per_second)


@dataclass(frozen=True)
class FieldValues:
    """The values of fields by name, in the order of a row."""

    fields: Mapping[str, FieldKind]

    def __call__(self, number: int) -> tuple[Any, ...]:
        """Those of the row of a number."""
        return tuple(kind(number, _chance(name, number)) for name, kind in self.fields.items())


def count_of(kinds: Iterable[FieldKind], count: int | None) -> int | None:
    """How many rows there are: `count`, or if None as many as the shortest `Ascending` has.

    Raises:
        ConfigError: there are fewer ascending values than rows.
    """
    ends = [kind.end - kind.start + 1 for kind in kinds if isinstance(kind, Ascending)]
    most = min(ends, default=None)
    if count is not None and most is not None and count > most:
        raise ConfigError(
            f"data generator: {count} rows of an ascending field with {most} values; expected at most {most}"
        )
    return most if count is None else count


@dataclass(frozen=True)
class _Rows:
    fields: dict[str, FieldKind]

    def __call__(self, number: int) -> Row:
        return Row(**{name: kind(number, _chance(name, number)) for name, kind in self.fields.items()})


def _chance(name: str, number: int) -> int:
    return xxhash.xxh3_64_intdigest(name.encode(), seed=number)


def _check_order(kind: object, low: float, high: float) -> None:
    if high < low:
        raise ConfigError(
            f"data generator: {kind} has no values; expected the upper end not below the lower one"
        )
