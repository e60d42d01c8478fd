"""Supervisor: restarts attempts until a job has finished, stopped or failed; the same on every executor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Literal, Protocol

from tidegate.clock import Clock
from tidegate.errors import FencedError, JobCancelledError, JobFailedError, TidegateError
from tidegate.runtime.checkpoint.protocol import How
from tidegate.runtime.job import Startup
from tidegate.runtime.result import JobResult
from tidegate.runtime.schedule.restart import RestartStrategy, repeats, worth_restarting
from tidegate.runtime.status import RunStatus

__all__ = ["RunAttempt", "Supervisor", "restarts_exhausted"]


class RunAttempt(Protocol):
    """Runs one attempt of a job, from its start point until its last checkpoint is settled."""

    def __call__(self, restart: RestartStrategy) -> How:
        """Run the attempt and report progress to `restart`.

        Raises:
            TidegateError: the attempt failed; all its tasks have ended.
        """
        ...


class Supervisor:
    """Restarts attempts after errors that a restart can solve, and releases the pipeline with the right status."""

    def __init__(
        self, startup: Startup, clock: Clock, status: RunStatus, observe: Callable[[RunStatus], None]
    ) -> None:
        self._startup = startup
        self._clock = clock
        self._status = status
        self._observe = observe
        self._restart = startup.program.options.strategy()

    def run(self, attempt: RunAttempt) -> JobResult:
        """Run an acquired pipeline to its end.

        Raises:
            JobFailedError: the restart strategy allows no more restarts.
            TidegateError: it failed with an error that a restart cannot solve.
        """
        while True:
            try:
                # The job has ended only when that is recorded, otherwise the next start would resume it.
                self._leave("finished" if attempt(self._restart) == "finish" else "stopped")
                break
            except JobCancelledError:
                self._status.become("cancelling")
                # Decided output must become visible, so it is committed before the pipeline is released.
                self._startup.start_point()
                self._leave("canceled")
                raise
            except FencedError:
                # Another process owns the pipeline and continues the job.
                self._status.become("suspended")
                self._observe(self._status)
                raise
            except TidegateError as error:
                self._after_failure(error)
            except BaseException:
                self._give_up()
                raise
        return JobResult.of(self._startup, self._status)

    def _leave(self, status: Literal["finished", "stopped", "canceled"]) -> None:
        self._startup.leave(status)
        self._status.become(status)
        self._observe(self._status)

    def _after_failure(self, error: TidegateError) -> None:
        now_ms = int(self._clock.monotonic() * 1000)
        self._status.become("failing")
        again = repeats(self._restart, error)
        delay_ms = self._restart.failed(now_ms) if worth_restarting(error) and not again else None
        if delay_ms is None:
            self._give_up()
            if not worth_restarting(error):
                raise error
            name = self._startup.program.name
            if again:
                raise JobFailedError(
                    f"job {name!r} failed twice on the same record with the same error: {error}"
                ) from error
            raise restarts_exhausted(name, error) from error
        self._status.become("restarting")
        self._status.note("restart", str(error))
        self._observe(self._status)
        self._clock.sleep(delay_ms / 1000)
        self._status.become("created")

    def _give_up(self) -> None:
        if not self._status.life.over:
            if self._status.state != "cancelling":
                self._status.become("failing")
            self._status.become("failed")
        self._observe(self._status)
        # An error of the storage, or a new owner, must not hide the error that ends the run.
        with contextlib.suppress(TidegateError):
            self._startup.pipeline.leave("failed")


def restarts_exhausted(job: str, error: TidegateError) -> JobFailedError:
    """The error of a job that is not restarted again."""
    return JobFailedError(f"job {job!r} failed and its restarts are used up: {error}")
