"""A running job in the hands of the program that started it.

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

from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum

from tidegate.ids import RunId
from tidegate.runtime.refusing import Refusing
from tidegate.runtime.result import JobResult
from tidegate.runtime.status import State
from tidegate.runtime.tracebacks import hide_engine

__all__ = ["JobClient", "JobStatus"]


class JobStatus(Enum):
    """What a job is doing, in Flink's words."""

    INITIALIZING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    CANCELED = "canceled"
    FAILED = "failed"

    def is_terminal_state(self) -> bool:
        """Whether this run will not change any more; a stopped pipeline may still be started again."""
        return self.is_globally_terminal_state()

    def is_globally_terminal_state(self) -> bool:
        """Whether it will not change any more."""
        return self in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)


_STATUS: dict[State, JobStatus] = {
    "stopping": JobStatus.RUNNING,
    "stopped": JobStatus.FINISHED,
}


class JobClient(Refusing):
    """Asks and commands one run of a program; the run ends when this process does."""

    def __init__(
        self, run: RunId, stop: Callable[[], None], cancel: Callable[[], None], state: Callable[[], State]
    ) -> None:
        self._run = run
        self._stop = stop
        self._cancel = cancel
        self._state = state
        self._result: Future[JobResult] = Future()

    def get_job_id(self) -> RunId:
        """The id of the run."""
        return self._run

    def get_job_status(self) -> Future[JobStatus]:
        """What it is doing; the answer is there at once."""
        state = self._state()
        answer: Future[JobStatus] = Future()
        answer.set_result(_STATUS.get(state) or JobStatus(state))
        return answer

    def get_job_execution_result(self) -> Future[JobResult]:
        """How it ended; `result(timeout)` waits for the end and raises what the job failed with."""
        return self._result

    def cancel(self) -> Future[None]:
        """End at once: what is decided becomes visible, the rest is removed; waits for nothing else."""
        self._cancel()
        gone: Future[None] = Future()
        self._result.add_done_callback(lambda _: gone.set_result(None))
        return gone

    def stop(self) -> Future[JobResult]:
        """Take a last checkpoint and end; starting the pipeline again goes on from there."""
        self._stop()
        return self._result

    def ended(self, run: Callable[[], JobResult]) -> None:
        """Run the job to its end and keep how it ended; called by whoever runs it."""
        try:
            self._result.set_result(run())
        except BaseException as error:
            hide_engine(error)
            self._result.set_exception(error)
