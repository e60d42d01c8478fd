"""Snapshots of a chain: its part of each checkpoint, and checkpoint notifications to its functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tidegate import faults
from tidegate.backends.keyed.snapshot import finish_all
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.runtime.operators.chain.operators import ChainOperators
from tidegate.runtime.operators.chain.time import ChainTime
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.lifecycle import ManagedFunctions
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.operators.operator_list import written

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex

__all__ = ["ChainSnapshots", "PendingReports"]

PendingReports: TypeAlias = Callable[[], list[OperatorReport]]
"""The asynchronous part of a snapshot; may run in another thread while records are processed."""


class ChainSnapshots:
    """Takes snapshots of the operators of a chain."""

    def __init__(
        self, vertex: JobVertex, env: ChainEnvironment, operators: ChainOperators, time: ChainTime
    ) -> None:
        self._env = env
        self._operators = operators
        self._time = time
        self._writes = any(node.kind.role is Role.SINK for node in vertex.nodes.values())
        self._fell_short = False
        """Whether a function or a sink could not make its part of the last snapshot durable."""

    def take(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> PendingReports:
        """Take the state at a barrier; `confirmed` is the newest decided checkpoint.

        The returned function raises UnavailableError if the checkpoint is to be declined.

        Raises:
            UnavailableError: a function or a sink could not save its state, for the second time in a row.
        """
        faults.point("task.before-snapshot")
        try:
            reports = self._save(checkpoint, confirmed)
        except UnavailableError as error:
            # Some can retry at the next barrier; the others need a restart.
            if self._fell_short:
                raise
            self._fell_short = True
            return partial(_decline, error)
        self._fell_short = False
        index, files = self._env.subtask.index, self._env.state.files
        reports += self._time.reports()
        pending = {
            uid: store.snapshot(checkpoint, confirmed) for uid, store in self._operators.stores.items()
        }
        lists = {uid: context.functions.snapshot() for uid, context in self._operators.contexts.items()}
        for uid, operator in self._operators.all():
            lists[uid] = operator.snapshot_lists() + lists[uid]

        def finish() -> list[OperatorReport]:
            keyed = finish_all(pending)
            dropped = {uid: each.dropped for uid, each in pending.items()}
            kept = {uid: tuple(written(each, files) for each in held) for uid, held in lists.items()}
            return reports + [
                OperatorReport(uid, index, keyed=keyed.get(uid), lists=held, dropped=dropped.get(uid, ()))
                for uid, held in kept.items()
                if uid in keyed or held
            ]

        return finish

    def completed(self, checkpoint: CheckpointId) -> None:
        """Tell all functions that a checkpoint is settled."""
        self._for_functions("notify_checkpoint_complete", lambda functions: functions.completed(checkpoint))

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Tell all functions that a checkpoint was aborted."""
        self._for_functions("notify_checkpoint_aborted", lambda functions: functions.aborted(checkpoint))

    @property
    def spent(self) -> bool:
        """Whether the chain is no longer needed: it has no output left, and no state for a checkpoint."""
        return not (
            self._writes
            or any(operator.snapshot_lists() for _, operator in self._operators.all())
            or any(context.functions.checkpointed for context in self._operators.contexts.values())
        )

    def spare_ms(self) -> float:
        """The time until work of the last snapshot expires; infinite if none does.

        Raises:
            UnavailableError: some of it could expire before its commit.
        """
        return min((operator.spare_ms() for _, operator in self._operators.all()), default=float("inf"))

    def _save(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> list[OperatorReport]:
        self._for_functions("snapshot_state", lambda functions: functions.save(checkpoint))
        prepared = (operator.prepare(checkpoint, confirmed) for _, operator in self._operators.all())
        return [report for report in prepared if report is not None]

    def _for_functions(self, doing: str, call: Callable[[ManagedFunctions], None]) -> None:
        for uid, context in self._operators.contexts.items():
            with self._operators.blame(uid, doing):
                call(context.functions)


def _decline(error: UnavailableError) -> list[OperatorReport]:
    raise error
