"""Job client: controls a running job from the program that started it.

Example:
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
    >>> _ = env.from_collection([1, 2]).print()
    >>> client = env.execute_async()
    >>> client.get_job_execution_result().result(timeout=60).records
    1> 1
    2> 2
    2
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Protocol

from tidegate.backends.storage import below
from tidegate.clock import new_id
from tidegate.errors import ConfigError
from tidegate.ids import RunId
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.options import SavepointFormat
from tidegate.runtime.result import JobResult
from tidegate.runtime.status import State
from tidegate.runtime.tracebacks import hide_engine
from tidegate.runtime.unsupported_api import UnsupportedApi

__all__ = ["Executor", "JobClient", "JobStatus"]


class JobStatus(Enum):
    """Job status, with Flink's names."""

    CREATED = "created"
    RUNNING = "running"
    FAILING = "failing"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELED = "canceled"
    FINISHED = "finished"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"

    def is_terminal_state(self) -> bool:
        """Whether this is a final state in this process; a suspended job may continue elsewhere."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()

    def is_globally_terminal_state(self) -> bool:
        """Whether the status can no longer change."""
        return self in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)


_STATUS: dict[State, JobStatus] = {
    "stopping": JobStatus.RUNNING,
    "stopped": JobStatus.FINISHED,
}


class Executor(Protocol):
    """Executes one program."""

    def run(self) -> JobResult:
        """Run until finished, stopped or failed."""
        ...

    def stop(
        self, order: SavepointOrder | None = None, *, drain: bool = False, for_good: bool = False
    ) -> None:
        """Take a final checkpoint and end; optionally write a savepoint, and advance event time to its end.

        A job that is stopped `for_good` counts as cancelled: the next start has no state.
        """
        ...

    def savepoint(self, order: SavepointOrder) -> None:
        """Take a savepoint; the job keeps running."""
        ...

    def cancel(self) -> None:
        """End without a final checkpoint."""
        ...


class JobClient(UnsupportedApi):
    """Queries and controls one run of a program; the run ends with this process.

    Savepoints go below `savepoints` unless a call says otherwise.
    """

    def __init__(
        self, run: RunId, executor: Executor, state: Callable[[], State], savepoints: str | None = None
    ) -> None:
        self._run = run
        self._executor = executor
        self._state = state
        self._savepoints = savepoints
        self._result: Future[JobResult] = Future()

    def get_job_id(self) -> RunId:
        """The id of the run."""
        return self._run

    def get_job_status(self) -> Future[JobStatus]:
        """The current status; the future is already completed."""
        state = self._state()
        status = _STATUS.get(state) or JobStatus(state)
        if self._result.done() and not status.is_terminal_state():
            status = JobStatus.FAILED  # refused before it started
        answer: Future[JobStatus] = Future()
        answer.set_result(status)
        return answer

    def get_job_execution_result(self) -> Future[JobResult]:
        """The result; `result(timeout)` waits for the end and raises the error of a failed job."""
        return self._result

    def cancel(self) -> Future[None]:
        """Cancel the job: decided output is committed, other output is aborted."""
        self._executor.cancel()
        return self.gone()

    def gone(self) -> Future[None]:
        """A future that completes when the job has ended, successfully or not."""
        gone: Future[None] = Future()
        self._result.add_done_callback(lambda _: gone.set_result(None))
        return gone

    def stop(self, *, drain: bool = False) -> Future[JobResult]:
        """Stop the job with a final checkpoint, from which the next start of the pipeline resumes.

        With `drain` event time first advances to its end, so that all event-time windows and timers fire.
        """
        self._executor.stop(drain=drain)
        return self._result

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, *, format_type: SavepointFormat = "canonical"
    ) -> Future[str]:
        """Write a savepoint below a directory while the job keeps running; the result is its path.

        Raises:
            ConfigError: neither the call nor `state.savepoints.dir` names a directory.
        """
        order = self._order(savepoint_directory, format_type)
        self._executor.savepoint(order)
        return order.taken

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        format_type: SavepointFormat = "canonical",
        for_good: bool = False,
    ) -> Future[str]:
        """Stop the job with a savepoint, after all event-time timers and windows have fired if requested; raises as above.

        A job that is stopped `for_good` counts as cancelled: the next start has no state, unless it restores the savepoint.
        """
        order = self._order(savepoint_directory, format_type)
        self._executor.stop(order, drain=advance_to_end_of_event_time, for_good=for_good)
        return order.taken

    def run_to_end(self, run: Callable[[], JobResult]) -> JobResult:
        """Run the job to its end and store its result; called by the thread that runs it, and raises its error."""
        try:
            result = run()
        except BaseException as error:
            hide_engine(error)
            self._result.set_exception(error)
            raise
        self._result.set_result(result)
        return result

    def _order(self, directory: str | None, format_type: SavepointFormat) -> SavepointOrder:
        where = directory or self._savepoints
        if where is None:
            raise ConfigError(
                "a savepoint needs a directory; got no savepoint_directory; give one or set state.savepoints.dir"
            )
        if "://" not in where:
            where = os.path.abspath(where)  # noqa: PTH100  # resolving links would be I/O
        order = SavepointOrder(below(where, f"savepoint-{self._run[:6]}-{new_id(8)}"), format_type)
        self._result.add_done_callback(lambda ended: order.fail(_why(ended)))
        return order


def _why(ended: Future[JobResult]) -> str:
    """Why a job that has ended cannot be controlled."""
    error = ended.exception()
    return "the job has ended" if error is None else f"the job has failed: {error}"
