"""Savepoint orders of a running job, from the request to the complete savepoint."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from tidegate.backends.storage import StorageFiles, complete
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import UnavailableError
from tidegate.failures import end_of
from tidegate.ids import CheckpointId
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.protocol import SavepointFailed, SavepointOver, WriteSavepoint
from tidegate.runtime.checkpoint.savepoint import write_savepoint
from tidegate.runtime.options import SavepointFormat

if TYPE_CHECKING:
    from tidegate.runtime.job import Startup

__all__ = ["SavepointOrder", "SavepointOrders"]


class SavepointOrder:
    """Asks for a savepoint in a place that nothing else uses; it outlives restarts of the job.

    `taken` answers the place when the savepoint is complete and all output before it is visible.
    """

    def __init__(self, place: str, format_type: SavepointFormat) -> None:
        self.place = place
        self.taken: Future[str] = Future()
        self._format = format_type

    def write(self, startup: Startup, checkpoint: CheckpointId) -> None:
        """Write the savepoint from a settled checkpoint of this run and complete the waiting future.

        Called by a thread that may block, while the checkpoint is kept from being deleted.
        """
        try:
            manifest = startup.pipeline.archive.load(Retained(startup.run, checkpoint))
            files = StorageFiles(startup.storage.blobs, "")
            settled = msgspec.structs.replace(manifest, unsettled=())
            options = startup.program.options
            now_ms = (options.resources.clock or SYSTEM_CLOCK).now_ms()
            write_savepoint(
                settled,
                files,
                complete(self.place, options.components),
                options.backend,
                self._format,
                now_ms=now_ms,
                mode=options.new_mode,
            )
        except BaseException as error:
            self.taken.set_exception(end_of(f"savepoint {self.place}", error))
        else:
            self.taken.set_result(self.place)

    def fail(self, reason: str) -> None:
        """Say that there will be no such savepoint, unless how it went is known already."""
        if not self.taken.done():
            self.taken.set_exception(UnavailableError(f"no savepoint was written to {self.place}: {reason}"))


class SavepointOrders:
    """The savepoint orders that an attempt has accepted."""

    def __init__(self, startup: Startup) -> None:
        self._startup = startup
        self._orders: dict[str, SavepointOrder] = {}

    def accept(self, order: SavepointOrder, refusal: str | None) -> bool:
        """Whether the order is new here and can be fulfilled; if not, it is told the `refusal`."""
        if refusal is not None:
            order.fail(refusal)
        if refusal is not None or order.place in self._orders:
            return False
        self._orders[order.place] = order
        return True

    def write(self, action: WriteSavepoint) -> SavepointOver:
        """Write a savepoint; called by a thread that may block."""
        self._orders[action.place].write(self._startup, action.checkpoint)
        return SavepointOver(action.place)

    def fail(self, action: SavepointFailed) -> None:
        """Tell an order that there will be no such savepoint."""
        self._orders.pop(action.place).fail(action.reason)
