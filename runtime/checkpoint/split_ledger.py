"""Split ledger: checks before each checkpoint that every split of a source is in exactly one place. Pure.

A split is *pending* (with its enumerator), *assigned* (a reader was given it and has not reported it yet) or *reported*
(in the reader's part of a checkpoint). One in two places would be read twice after a restore, one in none not at all.
What a reader was given and does not report has been read to its end.

Example:
    >>> ledger = SplitLedger("orders")
    >>> ledger.assign(0, ["a"])
    >>> ledger.cut(["b"])
    >>> ledger.report({0: ["a"]})
    >>> ledger.report({0: ["a", "b"]})
    Traceback (most recent call last):
      ...
    tidegate.errors.InternalError: source 'orders': splits ['b'] are reported by reader 0, to which they were not assigned ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidegate.errors import InternalError

__all__ = ["SplitLedger"]


class SplitLedger:
    """Follows the splits of one source, from its enumerator's start on.

    Args:
        uid: The source, as errors call it.

    Raises:
        InternalError: by every method: splits are in two places or in none.
    """

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._holder: dict[str, int] = {}
        self._ended: frozenset[str] = frozenset()
        self._pending: frozenset[str] | None = None
        self._at_cut: dict[str, int] = {}

    def assign(self, reader: int, splits: Iterable[str]) -> None:
        """The enumerator assigns splits to a reader."""
        given = list(splits)
        self._check(
            (s for s in given if s in self._holder.keys() - self._ended),
            "are assigned although a reader already has them",
        )
        self._holder.update(dict.fromkeys(given, reader))
        self._ended = self._ended.difference(given)
        if self._pending is not None:
            self._pending = self._pending.difference(given)

    def cut(self, pending: Collection[str] | None) -> None:
        """A checkpoint is triggered: this is what the enumerator holds, if it can tell."""
        if pending is not None:
            twice = {split for split in pending if split in self._holder.keys() - self._ended}
            self._check(twice, "are with the enumerator although a reader has them")
            self._check(
                (self._pending or frozenset()).difference(pending),
                "are neither with the enumerator nor assigned",
            )
            self._check(
                [] if len(set(pending)) == len(pending) else pending, "are with the enumerator more than once"
            )
            self._pending = frozenset(pending)
        self._at_cut = dict(self._holder)

    def report(self, reports: Mapping[int, Iterable[str]]) -> None:
        """All readers have told their splits as of the last cut."""
        reported: set[str] = set()
        for reader, splits in reports.items():
            mine = list(splits)
            strange = [split for split in mine if self._at_cut.get(split) != reader]
            self._check(
                strange,
                f"are reported by reader {reader}, to which they were not assigned before the checkpoint",
            )
            self._check(
                [] if len(set(mine)) == len(mine) else mine, f"are reported by reader {reader} more than once"
            )
            reported.update(mine)
        self._ended = frozenset(self._at_cut.keys() - reported)

    def decided(self) -> None:
        """The checkpoint of the last report counts: what had ended by then never comes back."""
        for split in self._ended:
            self._holder.pop(split, None)
        self._ended = frozenset()

    def _check(self, wrong: Iterable[str], what: str) -> None:
        if found := sorted(wrong):
            raise InternalError(
                f"source {self._uid!r}: splits {found} {what}; expected each split in exactly one place; nothing was "
                "written; please report this to the author of the source"
            )
