"""Leftovers of task executions that do not count: their prepared transactions, and the ids that they used."""

from __future__ import annotations

from tidegate.clock import Clock
from tidegate.ids import CheckpointId
from tidegate.runtime.checkpoint.committers import Committers
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.job import Startup
from tidegate.runtime.spark.epochs import Epochs
from tidegate.runtime.spark.id_pool import IdClaims, IdHolds

__all__ = ["Leftovers"]


class Leftovers:
    """Removes leftovers of the epochs of an attempt; called only when all decided work is committed."""

    def __init__(
        self,
        startup: Startup,
        committers: Committers,
        decided: Manifest | None,
        epochs: Epochs,
        holds: IdHolds,
        clock: Clock,
    ) -> None:
        self.decided = decided
        """The newest decided checkpoint."""
        self._startup = startup
        self._committers = committers
        self._epochs = epochs
        self._holds = holds
        self._clock = clock
        self._former_gone_at: float | None = clock.monotonic() + startup.program.options.lease_ms / 1000
        """When tasks of the previous owner have stopped; None once their leftovers are removed."""

    def wait_s(self, checkpoint: CheckpointId) -> float:
        """How long an epoch waits for its ids, because executions that may still be alive use them."""
        return self._holds.wait_s(checkpoint, self._clock.monotonic())

    def hold(self, checkpoint: CheckpointId) -> None:
        """An epoch starts: its executions may be alive from now on."""
        self._holds.hold(checkpoint, self._clock.monotonic())

    def remove(self, checkpoint: CheckpointId) -> None:
        """Remove work prepared by executions that do not count: all decided work is committed by now."""
        if self._epochs.has_no_losers:
            self._holds.free(checkpoint)
            if self._epochs.jobs.copied or self._previous_tasks_ended():
                self.abandon(checkpoint)
        else:
            self.abandon(checkpoint)
            self.hold(checkpoint)
        self._epochs.settled()

    def abandon(self, checkpoint: CheckpointId) -> None:
        """Remove undecided work of the epoch's executions, and the indexes that they have claimed."""
        self._committers.abort(self.decided)
        IdClaims(self._startup.storage, self._startup.run, checkpoint).clear()

    def remove_last_copies(self) -> None:
        """Remove work prepared by speculative copies that lost; called at the end, since no next epoch does it."""
        if self._epochs.jobs.copied:
            self._epochs.jobs.await_losers()
            self._committers.abort(self.decided)

    def _previous_tasks_ended(self) -> bool:
        """Whether the tasks of the previous owner have stopped; true once."""
        if self._former_gone_at is None or self._clock.monotonic() < self._former_gone_at:
            return False
        self._former_gone_at = None
        return True
