"""Input of the demo: payment number i is always the same, so the audit can generate it again.

Each half of the payments belongs to a branch with accounts of its own. A branch is one split of the source, so the
payments of an account keep their order and each of its running totals is known beforehand.

Example:
    >>> Payments(1_000)(999) == Payments(1_000)(999)
    True
    >>> Payments(1_000).payment(999).account[:6]
    'south-'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import xxhash

__all__ = ["BRANCHES", "Payment", "Payments", "RunningTotal", "parse"]

BRANCHES: Final = (("north", "EUR"), ("south", "SEK"))

_ACCOUNTS, _MOST_CENTS, _ONE_DECLINED_IN = 1_000, 50_000, 40


class Payment(msgspec.Struct, frozen=True):
    """What the pipeline reads."""

    id: int
    account: str
    cents: int
    currency: str
    state: Literal["booked", "declined"]


class RunningTotal(msgspec.Struct, frozen=True):
    """What it writes for a booked payment: how many its account has had with it, and what they add up to."""

    id: int
    account: str
    count: int
    cents: int


@dataclass(frozen=True)
class Payments:
    """All payments, by number."""

    count: int

    def __call__(self, number: int) -> str:
        """A payment as JSON text, as the source emits it."""
        return msgspec.json.encode(self.payment(number)).decode()

    def payment(self, number: int) -> Payment:
        """A payment."""
        chance = xxhash.xxh3_64_intdigest(number.to_bytes(8, "little"))
        branch, currency = BRANCHES[number >= self.count // 2]
        return Payment(
            id=number,
            account=f"{branch}-{chance % _ACCOUNTS:03}",
            cents=(chance >> 16) % _MOST_CENTS + 1,
            currency=currency,
            state="declined" if (chance >> 48) % _ONE_DECLINED_IN == 0 else "booked",
        )


def parse(text: str) -> Payment:
    """The payment that a text holds."""
    return msgspec.json.decode(text, type=Payment)
