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
from tidegate.runtime.checkpoint.savepoint import write_savepoint
from tidegate.runtime.options import SavepointFormat

if TYPE_CHECKING:
    from tidegate.runtime.job import Startup

__all__ = ["SavepointOrder"]


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
