"""Partition layout of the Kafka demo: the target of each payment is known in advance, and so are the ends of topics.

Payments of an account go to one partition, which keeps their order; so each running total is known beforehand, too.

Example:
    >>> sum(ends(1_000).values()), sorted(ends(1_000))
    (1000, [0, 1, 2, 3])
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import xxhash

from tidegate.runtime.cli.demo.payments import Payments

__all__ = ["PARTITIONS", "Expected", "ends", "partition_of"]

PARTITIONS: Final = 4


def partition_of(account: str) -> int:
    """Where the payments of an account go."""
    return xxhash.xxh32_intdigest(account.encode()) % PARTITIONS


def ends(records: int) -> dict[int, int]:
    """How many payments each partition gets."""
    payments = Payments(records)
    return dict(Counter(partition_of(payments.payment(number).account) for number in range(records)))


class Expected:
    """The running total that a payment leads to, if it is booked; to be asked for each once, in the order of its partition.

    Example:
        >>> expected = Expected()
        >>> expected({"id": 3, "account": "north-1", "cents": 20, "state": "booked"})
        [{'id': 3, 'account': 'north-1', 'count': 1, 'cents': 20}]
        >>> expected({"id": 4, "account": "north-1", "cents": 5, "state": "declined"})
        []
    """

    def __init__(self) -> None:
        self._totals: dict[str, tuple[int, int]] = {}

    def __call__(self, payment: dict[str, Any]) -> list[dict[str, Any]]:
        """The records that should be in the output."""
        if payment["state"] != "booked":
            return []
        account = payment["account"]
        count, cents = self._totals.get(account, (0, 0))
        self._totals[account] = count, cents = count + 1, cents + payment["cents"]
        return [{"id": payment["id"], "account": account, "count": count, "cents": cents}]
