"""Id pools: the pool index of a task execution selects the ids, such as transactional ids, that its sinks use.

A transaction aborts an older one with the same id, so no two executions of a subtask may share an id. The first execution
that Spark starts has the first index of its epoch, and recognises itself by Spark's task numbers. Every other execution
claims an index by creating a file, since it cannot know which execution it repeats.

Checkpoint numbers are never used twice, and the next ones have other indexes. An execution that Spark gave up may still
run; it ends when it sees that its epoch is over or, if it was paused, with its lease. Until then `IdHolds` reserves
its indexes.
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

__all__ = ["IdClaims", "IdHolds", "is_first_execution"]

EPOCHS: Final = 8
EXECUTIONS: Final = 8
"""Twice Spark's default of attempts per task."""


def is_first_execution(
    shape: Shape, since: int, level: int, execution: int, attempt: int, senders: Iterable[int]
) -> bool:
    """Whether an execution is the first one of its subtask in an epoch; False if this is not certain.

    Spark numbers executions consecutively, and starts a level when the level before is complete. So the first executions of
    a level have the numbers right after those of the levels before it, and repeated executions have higher numbers. If a
    level was aborted before all of it had started, Spark repeats part of the level before, which `senders` shows; if a
    task is repeated within its level, Spark counts its attempts.

    Args:
        shape: The shape of the program.
        since: A number that no execution of an earlier epoch exceeds; it may be too low.
        level: The level of the execution.
        execution: The number of the execution.
        attempt: How often Spark has repeated it within its level.
        senders: The executions that sent its parcels.

    Example:
        >>> shape = Shape(((Subtask("read", 0), Subtask("read", 1)), (Subtask("sum", 0),)))
        >>> is_first_execution(shape, 69, 1, 72, 0, senders=(70, 71)), is_first_execution(shape, 69, 1, 72, 0, senders=(73, 71))
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
    """When the indexes of an epoch may be reused, if one of its executions may still be alive. Pure.

    Args:
        hold_s: The maximum lifetime of such an execution after its epoch.

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
        """Reserve the indexes of an epoch: some of its executions may be alive."""
        self._until_s[checkpoint % EPOCHS] = now_s + self._hold_s

    def free(self, checkpoint: CheckpointId) -> None:
        """Free the indexes: every execution has ended."""
        self._until_s.pop(checkpoint % EPOCHS, None)

    def wait_s(self, checkpoint: CheckpointId, now_s: float) -> float:
        """How long an epoch must wait for its indexes."""
        return max(0.0, self._until_s.get(checkpoint % EPOCHS, now_s) - now_s)


class IdClaims:
    """The pool indexes of an epoch.

    Args:
        storage: The checkpoint storage.
        run: The run of the epoch.
        checkpoint: The checkpoint of the epoch.

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
        """The index of an execution of a subtask; call it once per execution. `first` if it is certainly the first one.

        Raises:
            UnavailableError: all indexes are taken, or the storage did not answer.
        """
        if first:
            return self._lowest
        mine = f"{self._folder}{escape(subtask.vertex)}-{subtask.index}"
        for number in range(1, EXECUTIONS):
            if self._decisions.create(f"{mine}-{number}", b""):
                return self._lowest + number
        raise UnavailableError(
            f"subtask {subtask} was started more than {EXECUTIONS - 1} times in one epoch, so all ids that its sinks have for "
            "it are taken; find out why its executions end"
        )

    def clear(self) -> None:
        """Remove the claims of the epoch once it is over; claims that cannot be removed are removed at the next start."""
        with contextlib.suppress(UnavailableError):
            self._blobs.delete(self._blobs.list(self._folder))
