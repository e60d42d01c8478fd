"""Keys drawn uniformly, and what a record does to the value of its key: the same for every system.

Knows the standard library alone, because it is imported where only the other system is installed.
"""

from __future__ import annotations

import random

__all__ = ["KEYS", "VALUES", "drawn", "key_of", "touched"]

KEYS = {"few-keys": 10_000, "many-keys": 200_000}
VALUES = [f"{number:0100d}" for number in range(64)]


def drawn(job: str, records: int) -> list[int]:
    """The keys of as many records of a job, in the same order each time."""
    chance = random.Random(7)
    return [chance.randrange(KEYS[job]) for _ in range(records)]


def key_of(number: int) -> str:
    """A key as text, for systems that know no other."""
    return f"{number:08d}"


def touched(value: str | None, number: int) -> str:
    """The value that follows."""
    return VALUES[(number + len(value or "")) & 63]
