"""The driver's lease in tasks: a task reads it from the pipeline record while it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from tidegate.backends.spi import Decisions
from tidegate.clock import Clock
from tidegate.errors import FencedError, UnavailableError
from tidegate.ids import CheckpointId, PipelineId, RunId
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.process_signals import KillTimer
from tidegate.runtime.worker_lease import WorkerLease

__all__ = ["watched_lease"]

_LOOKS: Final = 5
"""Checks per lease duration."""


@contextlib.contextmanager
def watched_lease(
    decisions: Decisions,
    pipeline: PipelineId,
    run: RunId,
    checkpoint: CheckpointId,
    lease_ms: int,
    clock: Clock,
) -> Iterator[WorkerLease]:
    """The lease of a task of `run`; the process is ended when it expires, or when the epoch is over.

    A task does not know the age of the lease it starts with, so it may outlive the lease by one lease duration. Work that
    such a task still prepares is removed by the next owner after that time.

    Raises:
        FencedError: the pipeline has another owner, or has a newer checkpoint already.
        UnavailableError: the storage did not answer.
    """
    lease_s, over = lease_ms / 1000, threading.Event()

    def look() -> str | None:
        record, tag = read_record(decisions, pipeline)
        if record is None or record.lease.run != run:
            owner = f"run {record.lease.run}" if record is not None else "no run"
            raise FencedError(f"pipeline {pipeline!r} is now owned by {owner}; this task stops")
        if record.newest_id >= checkpoint:
            raise FencedError(
                f"checkpoint {checkpoint} of pipeline {pipeline!r} is over, and {record.newest_id} is the newest; this task, "
                "which Spark has given up, stops"
            )
        return tag

    lease = WorkerLease(clock, lease_ms, KillTimer())
    looked = clock.monotonic()
    seen = look()
    lease.renewed(looked + lease_s)

    def watch() -> None:
        nonlocal seen, looked
        while not over.wait(lease_s / _LOOKS):
            now = clock.monotonic()
            try:
                tag = look()
            except UnavailableError:
                continue
            except FencedError as error:
                lease.lost(error)
                return
            if tag != seen:
                lease.renewed(looked + lease_s)
            seen, looked = tag, now

    thread = threading.Thread(target=watch, daemon=True, name="tidegate-lease")
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join()
        lease.close()
