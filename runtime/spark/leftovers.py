"""Leftovers of executions that do not count: what they have prepared outside, and the names that they have used."""

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
    """Removes what the epochs of an attempt leave; nothing decided may wait for its commit then."""

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
        """When tasks of the owner before this one have stopped; None once they were cleaned up after."""

    def wait_s(self, checkpoint: CheckpointId) -> float:
        """How long an epoch waits, because executions that may still be alive have used its names."""
        return self._holds.wait_s(checkpoint, self._clock.monotonic())

    def hold(self, checkpoint: CheckpointId) -> None:
        """Executions of an epoch may be alive from now on."""
        self._holds.hold(checkpoint, self._clock.monotonic())

    def remove(self, checkpoint: CheckpointId) -> None:
        """Remove what was prepared by executions that do not count: all that is visible has been committed by now."""
        if self._epochs.undisputed:
            self._holds.free(checkpoint)
            if self._epochs.jobs.copied or self._former_are_gone():
                self.abandon(checkpoint)
        else:
            self.abandon(checkpoint)
            self.hold(checkpoint)
        self._epochs.settled()

    def abandon(self, checkpoint: CheckpointId) -> None:
        """Remove what the epoch's executions have prepared and is not decided, and what they have claimed."""
        self._committers.abort(self.decided)
        IdClaims(self._startup.storage, self._startup.run, checkpoint).clear()

    def remove_last_copies(self) -> None:
        """Remove what copies of tasks prepare that have lost; called at the end, when no next epoch does it."""
        if self._epochs.jobs.copied:
            self._epochs.jobs.await_losers()
            self._committers.abort(self.decided)

    def _former_are_gone(self) -> bool:
        """Whether the time has come, once, when what a former owner's tasks have begun late is all there will be."""
        if self._former_gone_at is None or self._clock.monotonic() < self._former_gone_at:
            return False
        self._former_gone_at = None
        return True
