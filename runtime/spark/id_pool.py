"""Pool indexes of executions: which names, such as transactional ids, the sinks of an execution use outside.

A transaction that begins under a name ends another one under it, so no two executions of a subtask may share a name. The execution that Spark begins first has the first index of its epoch, and can tell from the numbers that Spark gives to
executions that it is that one. Any other claims an index by creating a file, since nobody could tell it whom it repeats.

Numbers of checkpoints are never used twice, and the next ones have other indexes. An execution that Spark gave up may still
run, and ends when it sees that its epoch is over or, if it was stopped, with its lease; until then `IdHolds` keeps its
indexes from being used again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from tidegate.backends.spi import CheckpointStorage
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import CheckpointId, RunId, Subtask
from tidegate.runtime.checkpoint.manifest import claims_folder
from tidegate.runtime.spark.shape import Shape
from tidegate.twophase.naming import escape

__all__ = ["IdClaims", "IdHolds", "surely_first"]

EPOCHS: Final = 8
EXECUTIONS: Final = 8
"""Twice as many as Spark runs of a task by default."""


def surely_first(
    shape: Shape, since: int, level: int, execution: int, attempt: int, senders: Iterable[int]
) -> bool:
    """Whether an execution is the first one of its subtask in an epoch; False also where it cannot be told.

    Spark numbers executions one after the other, and begins a level when all of the one before are through. So the first
    ones of a level have the numbers behind those of the levels before it, and later than that are those that repeat a level.
    Where a level was broken off before all of it had begun, Spark repeats some of the level before, and so do the
    `senders` show it; where a task is repeated within its level, Spark counts its attempts.

    Args:
        shape: Of the program.
        since: A number that no execution of an earlier epoch exceeds; it may be too low.
        level: Where the execution is.
        execution: Its number.
        attempt: How often Spark has repeated it within its level.
        senders: The executions whose parcels it has.

    Example:
        >>> shape = Shape(((Subtask("read", 0), Subtask("read", 1)), (Subtask("sum", 0),)))
        >>> surely_first(shape, 69, 1, 72, 0, senders=(70, 71)), surely_first(shape, 69, 1, 72, 0, senders=(73, 71))
        (True, False)
    """
    sizes = [len(subtasks) for subtasks in shape.levels]
    begin = since + 1 + sum(sizes[:level])
    before = range(begin - sizes[level - 1], begin) if level else range(0)
    return (
        attempt == 0
        and execution in range(begin, begin + sizes[level])
        and all(sender in before for sender in senders)
    )


class IdHolds:
    """From when on the indexes of an epoch may be used again, if an execution of it may still be alive. Pure.

    Args:
        hold_s: How long such an execution may live after its epoch.

    Example:
        >>> holds = IdHolds(20.0)
        >>> holds.hold(CheckpointId(3), now_s=100.0)
        >>> holds.wait_s(CheckpointId(4), 101.0), holds.wait_s(CheckpointId(11), 101.0)
        (0.0, 19.0)
        >>> holds.free(CheckpointId(3))
        >>> holds.wait_s(CheckpointId(11), 101.0)
        0.0
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._until_s: dict[int, float] = {}

    def hold(self, checkpoint: CheckpointId, now_s: float) -> None:
        """Not every execution of an epoch is known to have ended."""
        self._until_s[checkpoint % EPOCHS] = now_s + self._hold_s

    def free(self, checkpoint: CheckpointId) -> None:
        """Every execution of it has ended."""
        self._until_s.pop(checkpoint % EPOCHS, None)

    def wait_s(self, checkpoint: CheckpointId, now_s: float) -> float:
        """How long an epoch must wait for its indexes."""
        return max(0.0, self._until_s.get(checkpoint % EPOCHS, now_s) - now_s)


class IdClaims:
    """The pool indexes of an epoch.

    Args:
        storage: Of the checkpoints.
        run: Whose epoch it is.
        checkpoint: Which one.

    Example:
        >>> from tidegate.backends.storage import MemoryStorage
        >>> claims, totals = IdClaims(MemoryStorage(), RunId("run"), CheckpointId(9)), Subtask("totals", 2)
        >>> claims.of(totals, first=True), claims.of(totals, first=False), claims.of(totals, first=False)
        (8, 9, 10)
    """

    def __init__(self, storage: CheckpointStorage, run: RunId, checkpoint: CheckpointId) -> None:
        if storage.decisions is None:
            raise ConfigError(f"storage {storage.url} cannot decide atomically; expected one that can")
        self._decisions = storage.decisions
        self._blobs = storage.blobs
        self._folder = claims_folder(run, checkpoint)
        self._lowest = checkpoint % EPOCHS * EXECUTIONS

    def of(self, subtask: Subtask, *, first: bool) -> int:
        """The index of an execution of a subtask, to be asked for once; `first` if it is the first one for certain.

        Raises:
            UnavailableError: there is none left, or the storage did not answer.
        """
        if first:
            return self._lowest
        mine = f"{self._folder}{escape(subtask.vertex)}-{subtask.index}"
        for number in range(1, EXECUTIONS):
            if self._decisions.create(f"{mine}-{number}", b""):
                return self._lowest + number
        raise UnavailableError(
            f"subtask {subtask} was begun more than {EXECUTIONS - 1} times in one epoch, so all names that its sinks have for "
            "it are taken; see what ends its executions"
        )

    def clear(self) -> None:
        """Remove what was claimed, once the epoch is over; what the storage does not let go is swept at the next start."""
        with contextlib.suppress(UnavailableError):
            self._blobs.delete(self._blobs.list(self._folder))
