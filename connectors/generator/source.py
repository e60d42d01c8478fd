"""Makes record i of a sequence by calling a function with i.

Guarantee: replayable; the position of a record is its number, so reading resumes exactly. Bounded if it has a count.

Example:
    >>> GeneratorSource(lambda i: i * i, count=10).bounded
    True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tidegate.connectors.base import ListEnumerator, Pace, RangeReader, RangeSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.errors import ConfigError, UserCodeError
from tidegate.ids import SplitId
from tidegate.types import TypeInformation, result_type

__all__ = ["GeneratorSource", "NumberSequenceSource"]

T = TypeVar("T")


@dataclass(frozen=True)
class GeneratorSource(Source[RangeSplit], Generic[T]):
    """A function as a source.

    Args:
        function: Makes a record from its number; the same record each time it is asked.
        count: How many records there are; None for ever.
        splits: Into how many parts they are cut: contiguous with a count, every n-th record without.
        rate_per_second: At most so many records a second over all splits; as fast as possible if None.

    Raises:
        ConfigError: a number makes no sense.
    """

    function: Callable[[int], T]
    count: int | None
    splits: int = 1
    rate_per_second: float | None = None
    bounded: bool = field(init=False)

    split_type = RangeSplit

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ConfigError(f"generator count is {self.count}; expected 0 or more, or None for ever")
        if self.splits < 1:
            raise ConfigError(f"generator splits is {self.splits}; expected 1 or more")
        if self.rate_per_second is not None and not self.rate_per_second > 0:
            raise ConfigError(
                f"generator rate_per_second is {self.rate_per_second}; expected more than 0, or None"
            )
        object.__setattr__(self, "bounded", self.count is not None)

    @property
    def produced_type(self) -> TypeInformation | None:
        """What the function says that it returns."""
        return result_type(self.function)

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> ListEnumerator[RangeSplit]:
        """Deals the parts of the sequence."""
        splits = [self._split(index) for index in range(self.splits)]
        left = [split for split in splits if not split.done]
        return ListEnumerator(context, left, RangeSplit, restored, end=self.count)

    def open_reader(self, context: ReaderContext) -> RangeReader:
        """Calls the function for each number of its parts."""
        rate = self.rate_per_second
        return RangeReader(self._read, None if rate is None else Pace(rate / self.splits, context.clock))

    def bound(self, split: RangeSplit, records: int) -> tuple[RangeSplit, RangeSplit | None]:
        """At most the next `records` of a part, and the rest."""
        return split.cut(records)

    def _split(self, index: int) -> RangeSplit:
        name = SplitId(f"{index}/{self.splits}")
        if self.count is None:
            return RangeSplit(name, index, None, self.splits)
        return RangeSplit(name, self.count * index // self.splits, self.count * (index + 1) // self.splits)

    def _read(self, numbers: range) -> list[Any]:
        function, values = self.function, list[Any]()
        try:
            for number in numbers:
                values.append(function(number))  # its length tells which call failed
        except BaseException as error:
            raise UserCodeError(f"the generator function failed for record {numbers[len(values)]}") from error
        return values


class NumberSequenceSource(GeneratorSource[int]):
    """The integers from `start` to `end`, both included, cut into parts that are read in parallel.

    Example:
        >>> NumberSequenceSource(1, 10).count
        10

    Raises:
        ConfigError: the end is before the start.
    """

    def __init__(self, start: int, end: int) -> None:
        if type(start) is not int or type(end) is not int or end < start:
            raise ConfigError(
                f"number sequence is from {start!r} to {end!r}; expected integers, end not before start"
            )
        super().__init__(_Offset(start), end - start + 1, splits=_PARTS)

    def _read(self, numbers: range) -> list[int]:
        first = self.function(0)
        return list(range(first + numbers.start, first + numbers.stop))


_PARTS = 16
"""Few enough for the smallest sequence, enough for the cores of one machine."""


@dataclass(frozen=True)
class _Offset:
    start: int

    def __call__(self, number: int) -> int:
        return self.start + number
