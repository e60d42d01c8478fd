"""Pool of transactional ids of a subtask: few, numbered, and not reused before their transaction has ended.

Pure: no I/O and no clock. One id per checkpoint would fill the memory of brokers, which remember an id for a week.

Example:
    >>> pool = IdPool("orders.sink", subtask=2, size=3)
    >>> pool.take(), pool.take()
    ('orders.sink-2-0', 'orders.sink-2-1')
    >>> pool.give_back("orders.sink-2-0")
    >>> pool.take()
    'orders.sink-2-0'
"""

from __future__ import annotations

import re

from tidegate.errors import UnavailableError

__all__ = ["ANY_ID", "IdPool", "id_pattern", "marker_group"]

_SUFFIX = ".tidegate"
_NUMBER = "(?:0|[1-9][0-9]*)"

ANY_ID = re.compile(rf".+-{_NUMBER}-{_NUMBER}")
"""What ids of any prefix look like."""


class IdPool:
    """Hands out the lowest free id.

    Args:
        prefix: What the ids begin with.
        subtask: Whose they are.
        size: How many there are.
        index: Of the only one that may be used, where others may have the rest; None if all may be.
    """

    def __init__(self, prefix: str, subtask: int, size: int, index: int | None = None) -> None:
        numbers = range(size) if index is None else [index]
        self._ids = [f"{prefix}-{subtask}-{number}" for number in numbers]
        self._taken: set[str] = set()

    def take(self) -> str:
        """A free id, which is not free until it is given back.

        Raises:
            UnavailableError: all of them hold work that waits for its commit.
        """
        for each in self._ids:
            if each not in self._taken:
                self._taken.add(each)
                return each
        raise UnavailableError(
            f"kafka sink: all {len(self._ids)} transactional ids of the subtask ({self._ids[0]} and following) "
            "wait for their commit; checkpoints do not complete, or the pool is too small; check the log, or "
            "raise pool"
        )

    def give_back(self, transactional_id: str) -> None:
        """The id holds nothing any more."""
        self._taken.discard(transactional_id)


def id_pattern(prefix: str) -> re.Pattern[str]:
    """What all ids of a prefix look like, and no others.

    Example:
        >>> [bool(id_pattern("a").fullmatch(name)) for name in ("a-0-1", "a-b-0-1", "ab-0-1", "a-0-01")]
        [True, False, False, False]
    """
    return re.compile(rf"{re.escape(prefix)}-{_NUMBER}-{_NUMBER}")


def marker_group(transactional_id: str) -> str:
    """The group under which transactions of an id leave their marker."""
    return transactional_id + _SUFFIX
