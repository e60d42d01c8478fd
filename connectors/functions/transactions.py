"""Sink of a `TwoPhaseCommitSinkFunction`: one transaction per checkpoint that has records.

Guarantee: exactly once, as far as the function keeps its contract. A transaction that is not recorded yet when
its writer dies, which is one begun after the newest decided checkpoint's writers had begun theirs, stays open outside
without ever becoming visible; give such transactions a time limit there.

Example:
    >>> as_sink(3)
    Traceback (most recent call last):
    ...
    tidegate.errors.ConfigError: add_sink needs a function or a SinkFunction; got int; use sink_to for a Sink
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from tidegate.changelog import RowKinds
from tidegate.checks import shorten
from tidegate.connectors.functions.sink import (
    Adapter,
    Callback,
    FunctionSink,
    FunctionWriter,
    SinkContext,
    SinkFunction,
)
from tidegate.connectors.spi import OnBranch, Sink
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.serde import codec_for
from tidegate.twophase.function import TransactionCommitter, TransactionWork, TwoPhaseCommitSinkFunction
from tidegate.twophase.process import this_process_id
from tidegate.twophase.spi import CommitterContext, WriterContext

__all__ = ["TransactionalFunctionSink", "TransactionalFunctionWriter", "as_sink"]


def as_sink(function: Any) -> Sink:
    """The sink that calls a function, whichever kind it is.

    Raises:
        ConfigError: it is neither a `SinkFunction`, nor a `TwoPhaseCommitSinkFunction`, nor can it be called.
    """
    if isinstance(function, TwoPhaseCommitSinkFunction):
        return TransactionalFunctionSink(function)
    return FunctionSink(Callback(function) if _is_plain(function) else function)


def _is_plain(function: Any) -> bool:
    return callable(function) and not isinstance(function, type | SinkFunction)


@dataclass(frozen=True)
class TransactionalFunctionSink(Sink):
    """A transaction function as a sink.

    Args:
        function: What takes records; every subtask and every committer works on a copy of it.
        on_branch: What happens to output committed after the checkpoint a branch goes back to.
    """

    function: TwoPhaseCommitSinkFunction[Any]
    on_branch: OnBranch = "refuse"

    delivery = "exactly-once"
    takes: ClassVar[RowKinds] = "rows"

    def open_writer(self, context: WriterContext) -> TransactionalFunctionWriter:
        """An open instance with a transaction."""
        return TransactionalFunctionWriter(copy.deepcopy(self.function), context)

    def open_committer(self, context: CommitterContext) -> TransactionCommitter:
        """An instance that is not opened."""
        return TransactionCommitter(copy.deepcopy(self.function), context.uid)


class TransactionalFunctionWriter(FunctionWriter):
    """Prepares the transaction of an epoch and begins that of the next."""

    def __init__(self, function: TwoPhaseCommitSinkFunction[Any], context: WriterContext) -> None:
        self._current = _Current(function)
        self._encode = codec_for(None).encode
        super().__init__(self._current, context)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Prepare what holds records; an empty transaction stays open for the next epoch."""
        current = self._current
        if current.records == 0:
            return None
        (transaction,) = current.open_ones
        with self.blamed("pre_commit"):
            current.function.pre_commit(transaction)
        work = TransactionWork(this_process_id(), self._encode(transaction))
        prepared = msgspec.msgpack.encode(work), f"transaction {shorten(transaction)}", current.records
        current.open_ones, current.records = [], 0
        # Raised here, it would lose what is prepared now; the next record begins a transaction, or raises.
        with contextlib.suppress(UnavailableError), self.blamed("begin_transaction"):
            current.begin()
        return prepared

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """The open transaction; also saves the state of the function."""
        super().snapshot(checkpoint)
        return msgspec.msgpack.encode([self._encode(each) for each in self._current.open_ones])

    def _restore(self, items: list[Any]) -> None:
        for transaction in items:
            self._current.function.recover_and_abort(transaction)


class _Current(Adapter):
    """The function with its open transaction: at most one, part of the state so that a restore can abort it."""

    def __init__(self, function: TwoPhaseCommitSinkFunction[Any]) -> None:
        self.function = function
        self.open_ones: list[Any] = []
        self.records = 0

    def begin(self) -> None:
        self.open_ones = [self.function.begin_transaction()]

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)
        self.begin()

    def invoke(self, value: Any, context: SinkContext) -> None:
        if not self.open_ones:
            self.begin()
        self.function.invoke(self.open_ones[0], value, context)
        self.records += 1

    def close(self) -> None:
        for transaction in self.open_ones:
            self.function.abort(transaction)
        self.function.close()
