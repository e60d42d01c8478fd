"""Two-phase commit functions: the interface for external systems that can prepare and commit.

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
from typing import Any, Generic, TypeVar

import msgspec

from tidegate.ids import OperatorUid
from tidegate.serde import codec_for
from tidegate.twophase.one_by_one import OneByOneCommitter
from tidegate.twophase.process import this_process_id
from tidegate.twophase.spi import Answer, CommitAnswer, Committable

__all__ = ["TransactionCommitter", "TransactionWork", "TwoPhaseCommitSinkFunction"]

TXN = TypeVar("TXN")


class TwoPhaseCommitSinkFunction(ABC, Generic[TXN]):
    """Takes records into a transaction per checkpoint; one instance per subtask writes, any instance commits.

    `commit` and the two `recover_` methods are called on a copy that was never opened, in the process that settles
    the checkpoint, so they connect by themselves. `UnavailableError` from them means: ask again; its text is shown as
    the reason.
    """

    def open(self, runtime_context: Any) -> None:
        """Called once before the first transaction begins, after open transactions of the checkpoint are aborted."""

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
        continues with more records and is prepared with the next checkpoint.
        """

    @abstractmethod
    def commit(self, transaction: TXN) -> Answer | None:
        """Make it visible, in the process that wrote it; None counts as committed. May be called again."""

    @abstractmethod
    def abort(self, transaction: TXN) -> None:
        """Remove a transaction that was not prepared, when its writer ends."""

    def recover_and_commit(self, transaction: TXN) -> Answer | None:
        """Make it visible in another process than wrote it; it may have been done before."""
        return self.commit(transaction)

    def recover_and_abort(self, transaction: TXN) -> None:
        """Abort a transaction that was open at the restored checkpoint, unless it was committed since or no longer exists."""
        self.abort(transaction)


class TransactionWork(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """What a committable holds: the encoded transaction, and who wrote it."""

    process: str
    transaction: bytes


class TransactionCommitter(OneByOneCommitter):
    """Calls the function's side of a commit; an open transaction is aborted by the next writer of its state."""

    def __init__(self, function: TwoPhaseCommitSinkFunction[Any], uid: OperatorUid) -> None:
        super().__init__(f"sink function {type(function).__name__}", uid)
        self._function = function
        self._codec = codec_for(None)

    def _commit(self, work: Committable) -> Answer:
        held = msgspec.msgpack.decode(work.payload, type=TransactionWork)
        here = held.process == this_process_id()
        finish = self._function.commit if here else self._function.recover_and_commit
        return finish(self._codec.decode(held.transaction)) or CommitAnswer.COMMITTED
