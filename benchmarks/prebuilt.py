"""Prebuilt records for benchmarks of sinks; in a separate module, so that they are not pickled with the program."""

from __future__ import annotations

from typing import Any

from tidegate.connectors.generator import GeneratorSource

__all__ = ["RECORDS", "PrebuiltSource", "prebuilt"]

RECORDS: list[Any] = []
"""The records that the source repeats."""


class PrebuiltSource(GeneratorSource[Any]):
    """A source that repeats `RECORDS` in batches."""

    def __init__(self, count: int) -> None:
        super().__init__(_record, count)

    def _read(self, numbers: range) -> list[Any]:
        return prebuilt(numbers)


def prebuilt(numbers: range) -> list[Any]:
    """The records with these numbers, modulo the length of `RECORDS`."""
    start, stop = numbers.start % len(RECORDS), numbers.stop % len(RECORDS)
    return RECORDS[start:stop] if start < stop else RECORDS[start:] + RECORDS[:stop]


def _record(number: int) -> Any:
    return RECORDS[number % len(RECORDS)]
