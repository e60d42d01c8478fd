"""A transaction as a function: what a user writes to reach an external system that can prepare and commit.

Guarantee: exactly once, if the four promises of the methods hold: what `pre_commit` returned from survives a crash,
`commit` and `recover_and_commit` return only when it is visible, both find out by themselves that it was done
before, and `recover_and_abort` leaves alone what is visible or gone.

A transaction is a plain value that names the work outside; it goes into checkpoints, so it holds no connection.

Example:
    >>> class Lists(TwoPhaseCommitSinkFunction[int]):
    ...     '''Transaction n is the list with that number; a real one would be outside of this process.'''
    ...     lists, visible = [], []
    ...     def begin_transaction(self):
    ...         self.lists.append([])
    ...         return len(self.lists) - 1
    ...     def invoke(self, transaction, value, context):
    ...         self.lists[transaction].append(value)
    ...     def pre_commit(self, transaction):
    ...         pass
    ...     def commit(self, transaction):
    ...         self.visible += self.lists[transaction]
    ...     def abort(self, transaction):
    ...         self.lists[transaction].clear()
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> settings = {"execution.target": "inline", "parallelism.default": 1, "pipeline.progress": "off"}
    >>> env = StreamExecutionEnvironment.get_execution_environment(settings)
    >>> _ = env.from_collection(["a", "b"]).add_sink(Lists())
    >>> _ = env.execute()
    >>> Lists.visible
    ['a', 'b']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tidegate.errors import UnavailableError, UserCodeError
from tidegate.ids import OperatorUid
from tidegate.serde import codec_for
from tidegate.twophase.process import this_process_id
from tidegate.twophase.spi import CommitAnswer, Committable, Committer

__all__ = ["TransactionCommitter", "TransactionWork", "TwoPhaseCommitSinkFunction"]

TXN = TypeVar("TXN")


class TwoPhaseCommitSinkFunction(ABC, Generic[TXN]):
    """Takes records into a transaction per checkpoint; one instance per subtask writes, any instance commits.

    `commit` and the two `recover_` methods are called on a copy that was never opened, in whatever process settles
    the checkpoint, so they connect by themselves. `UnavailableError` from them means: ask again.
    """

    def open(self, runtime_context: Any) -> None:
        """Called once before the first transaction begins, after what a checkpoint left open is aborted."""

    def close(self) -> None:
        """Called once at the end, also after an error, when the open transaction is aborted."""

    @abstractmethod
    def begin_transaction(self) -> TXN:
        """A new transaction, named as no other is, in any subtask or attempt."""

    @abstractmethod
    def invoke(self, transaction: TXN, value: Any, context: Any) -> None:
        """Take a record into the transaction."""

    @abstractmethod
    def pre_commit(self, transaction: TXN) -> None:
        """Make everything in it durable but invisible.

        Called at the barrier of a checkpoint, if there were records. If it raises `UnavailableError`, the transaction
        goes on with more records and is prepared with the next checkpoint.
        """

    @abstractmethod
    def commit(self, transaction: TXN) -> CommitAnswer | None:
        """Make it visible, in the process that wrote it; None counts as committed. May be called again."""

    @abstractmethod
    def abort(self, transaction: TXN) -> None:
        """Remove a transaction that was not prepared, when its writer ends."""

    def recover_and_commit(self, transaction: TXN) -> CommitAnswer | None:
        """Make it visible in another process than wrote it; it may have been done before."""
        return self.commit(transaction)

    def recover_and_abort(self, transaction: TXN) -> None:
        """Remove what was open at the restored checkpoint, unless it was committed since, or is gone already."""
        self.abort(transaction)


class TransactionWork(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """What a committable holds: the encoded transaction, and who wrote it."""

    process: str
    transaction: bytes


class TransactionCommitter(Committer):
    """Calls the function's side of a commit."""

    def __init__(self, function: TwoPhaseCommitSinkFunction[Any], uid: OperatorUid) -> None:
        self._function = function
        self._uid = uid
        self._codec = codec_for(None)

    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        """Commit each; what the function raises for one is raised when all others are done."""
        answers: list[CommitAnswer] = []
        failed: UserCodeError | None = None
        for work in committables:
            try:
                answers.append(self._commit(msgspec.msgpack.decode(work.payload, type=TransactionWork)))
            except UnavailableError:
                answers.append(CommitAnswer.RETRY)
            except Exception as error:
                failed = UserCodeError(
                    f"sink function {type(self._function).__name__} (uid {self._uid!r}) failed to commit "
                    f"{work.describe} of checkpoint {work.checkpoint}: {type(error).__name__}: {error}"
                )
                failed.__cause__ = error
        if failed is not None:
            raise failed
        return answers

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Nothing: an open transaction is known to the checkpoint alone, and its next writer aborts it."""
        return 0

    def _commit(self, work: TransactionWork) -> CommitAnswer:
        here = work.process == this_process_id()
        finish = self._function.commit if here else self._function.recover_and_commit
        return finish(self._codec.decode(work.transaction)) or CommitAnswer.COMMITTED
