"""Visibility of Postgres transactions: the transactions that a snapshot of the server has seen.

Example:
    >>> view = TransactionView.parse("731:740:733,735")
    >>> [view.contains(xid) for xid in (730, 733, 734, 740)]
    [True, False, True, False]
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["TransactionView", "full_xid"]

_SPAN: Final = 1 << 32


class TransactionView(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot as `pg_current_snapshot()` describes it, by 64-bit ids of top-level transactions.

    Args:
        xmin: All before it are finished.
        xmax: This one and all that follow had not begun.
        in_progress: Those between that were not finished.
    """

    xmin: int
    xmax: int
    in_progress: tuple[int, ...]

    @staticmethod
    def parse(text: str) -> TransactionView:
        """The snapshot that the server wrote as this text."""
        xmin, xmax, listed = text.split(":")
        return TransactionView(int(xmin), int(xmax), tuple(int(xid) for xid in listed.split(",") if xid))

    def contains(self, transaction: int) -> bool:
        """Whether a read in this snapshot sees a transaction, if that was committed."""
        return transaction < self.xmin or (transaction < self.xmax and transaction not in self.in_progress)


def full_xid(xid: int, near: int) -> int:
    """The 64-bit id of a transaction of which the log has the lower 32 bits: the one nearest to `near`.

    Example:
        >>> full_xid(5, near=2**32 + 2), full_xid(2**32 - 1, near=2**32 + 2) == 2**32 - 1
        (4294967301, True)
    """
    candidate = near - near % _SPAN + xid
    return min((candidate - _SPAN, candidate, candidate + _SPAN), key=lambda each: abs(each - near))
