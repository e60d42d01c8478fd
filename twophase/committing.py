"""Commits of decided work: each sink's part by its own committer, checkpoint after checkpoint."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tidegate.ids import CheckpointId, OperatorUid
from tidegate.twophase.ledger import Answered, Commit, Decided, Fail, Ledger, Replay, Settle
from tidegate.twophase.spi import Answer, Committable, Committer

__all__ = ["Answers", "SinkCommitters", "settle", "work_by_sink"]

Answers: TypeAlias = tuple[tuple[Committable, Answer], ...]


def work_by_sink(work: Iterable[Committable]) -> list[tuple[OperatorUid, list[Committable]]]:
    """The work of each sink, in the order of their uids."""
    found: defaultdict[OperatorUid, list[Committable]] = defaultdict(list)
    for committable in work:
        found[committable.uid].append(committable)
    return sorted(found.items())


class SinkCommitters:
    """One committer per sink, opened at its first use.

    Args:
        open_committer: Opens the committer of a sink.
    """

    def __init__(self, open_committer: Callable[[OperatorUid], Committer]) -> None:
        self._open = open_committer
        self._opened: dict[OperatorUid, Committer] = {}

    def of(self, uid: OperatorUid) -> Committer:
        """The committer of a sink."""
        if uid not in self._opened:
            self._opened[uid] = self._open(uid)
        return self._opened[uid]

    def commit(self, uid: OperatorUid, work: list[Committable]) -> Answers:
        """Have decided work of one sink made visible; an answer for each piece."""
        return tuple(zip(work, self.of(uid).commit(work), strict=True))

    def close(self) -> None:
        """Close those that were opened."""
        for committer in self._opened.values():
            committer.close()


def settle(
    ledger: Ledger,
    decided: Iterable[Decided],
    commit: Callable[[tuple[Committable, ...]], Answers],
    settled: Callable[[CheckpointId], None] = lambda checkpoint: None,
) -> bool:
    """Commit decided work until all of it is visible, in one thread.

    Args:
        ledger: Says what is next.
        decided: The checkpoints that are not settled, oldest first.
        commit: Makes work visible; called again for what answered `Retry`.
        settled: Called when all output up to a checkpoint is visible.

    Returns:
        False if nothing of the oldest checkpoint is visible nor ever will be.

    Raises:
        CommitFailedError: only a part of a checkpoint is visible.
        CommitUnknownError: the outcome of a commit is unknown.
    """
    todo = deque(action for each in decided for action in ledger.on(each))
    while todo:
        match todo.popleft():
            case Commit(checkpoint, work):
                todo.extend(ledger.on(Answered(checkpoint, commit(work))))
            case Settle(checkpoint):
                settled(checkpoint)
            case Replay():
                return False
            case Fail(error):
                raise error
    return True
