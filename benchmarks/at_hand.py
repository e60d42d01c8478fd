"""Records that are there already, for sinks to be measured with; in a module of its own, so that they do not travel."""

from __future__ import annotations

from typing import Any

from tidegate.connectors.generator import GeneratorSource

__all__ = ["RECORDS", "AtHand", "at_hand"]

RECORDS: list[Any] = []
"""What comes again and again."""


class AtHand(GeneratorSource[Any]):
    """A source of these, in batches."""

    def __init__(self, count: int) -> None:
        super().__init__(_record, count)

    def _read(self, numbers: range) -> list[Any]:
        return at_hand(numbers)


def at_hand(numbers: range) -> list[Any]:
    """The records with these numbers."""
    start, stop = numbers.start % len(RECORDS), numbers.stop % len(RECORDS)
    return RECORDS[start:stop] if start < stop else RECORDS[start:] + RECORDS[:stop]


def _record(number: int) -> Any:
    return RECORDS[number % len(RECORDS)]
