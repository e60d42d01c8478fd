"""One attempt to run a program on Spark: epoch after epoch, from its start point to its end."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable

from pyspark import SparkContext

from tidegate.clock import Clock
from tidegate.errors import InternalError, JobCancelledError, TidegateError
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.requests import CancelRequested, Request, SavepointRequested, StopRequested
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.spark.epochs import Epochs
from tidegate.runtime.spark.id_pool import IdHolds
from tidegate.runtime.spark.pace import Pace
from tidegate.runtime.spark.performer import OBSERVE_S, EpochPerformer
from tidegate.runtime.spark.readers import Readers
from tidegate.runtime.status import RunStatus

__all__ = ["SparkAttempt"]


class SparkAttempt:
    """Decides when the next epoch begins and which one is the last; user functions and readers run only in tasks."""

    _lost: TidegateError | None = None
    """Why the lease is lost, if it is."""

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        context: SparkContext,
        clock: Clock,
        status: RunStatus,
        restart: RestartStrategy,
        observe: Callable[[RunStatus], None],
        requests: queue.SimpleQueue[Request],
        holds: IdHolds,
    ) -> None:
        self._startup = startup
        self._graph = start.graph
        self._status = status
        self._observe = observe
        self._requests = requests
        self._claims = startup.claims(start.graph)
        self._readers = Readers(start.graph, start.manifest, clock, status.discovery.looked, start.owner)
        self._pace = Pace(startup.program.options.spark_trigger, startup.program.interval_ms(start.graph))
        self._epochs = Epochs(startup, start, context, clock, self._meanwhile)
        self._performer = EpochPerformer(
            *(startup, start, self._epochs, self._readers, self._pace, holds, clock, status, restart),
            self._meanwhile,
        )

    def run(self) -> cp.How:
        """Run until the last checkpoint is settled.

        Raises:
            TidegateError: the attempt failed; results of tasks that still run are ignored.
        """
        with self._startup.lease.told_to(self._lease):
            return self._run()

    def _run(self) -> cp.How:
        self._status.attempt_begins()
        self._status.become("running")
        try:
            while self._performer.ended is None:
                self._wait_for_input()
                self._begin_epoch()
            self._performer.remove_last_copies()
            return self._performer.ended
        except JobCancelledError:
            self._status.become("cancelling")
            raise
        except TidegateError:
            raise
        except Exception as error:  # from a connector's code in the driver
            raise InternalError(f"{type(error).__name__}: {error}") from error
        finally:
            self._readers.close()
            self._performer.close()
            self._epochs.close()
            self._status.attempt_over()

    def _lease(self, lost: TidegateError | None) -> None:
        """Store why the lease is lost, for the coordinating thread."""
        self._lost = lost

    def _wait_for_input(self) -> None:
        """Wait until the next epoch is due; a request may start one earlier."""
        self._meanwhile()
        performer = self._performer
        while (left_ms := self._pace.next_ms - performer.now_ms) > 0:
            if self._readers.drained or performer.stop is not None or performer.coordinator.hurried:
                return
            self._meanwhile(min(OBSERVE_S, left_ms / 1000))

    def _meanwhile(self, timeout_s: float = 0) -> None:
        """Report progress and handle requests; also called while an epoch runs.

        Raises:
            ConfigError: another pipeline claims what a sink writes to.
            FencedError: the pipeline has a newer owner.
            JobCancelledError: the job was cancelled.
        """
        if self._lost is not None:
            raise self._lost
        self._observe(self._status)
        self._claims.tick()
        with contextlib.suppress(queue.Empty):
            self._handle(self._requests.get(timeout_s > 0, timeout_s))

    def _handle(self, request: Request) -> None:
        self._status.note("asked", request.words)
        match request:
            case StopRequested():
                if self._performer.accepts(request):
                    self._performer.stop = request
                    if request.order is not None:
                        self._performer.tell(cp.SavepointWanted(request.order.place))
            case SavepointRequested(order):
                self._performer.take_savepoint(order)
            case CancelRequested():
                raise JobCancelledError(f"job {self._startup.program.name!r} was cancelled")

    def _begin_epoch(self) -> None:
        """Send to the coordinator that the next epoch is due, or that it is the last one."""
        ends = self._graph.batch or self._readers.drained
        last: cp.How | None = "finish" if ends else "stop" if self._pace.over else None
        if self._performer.stop is not None and not self._graph.batch:
            last = "stop"
        if last == "stop":
            self._status.become("stopping")
        if last is None or not self._performer.tell(cp.Finish(last)):
            self._performer.tell(cp.Tick(self._performer.now_ms))
