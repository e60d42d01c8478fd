"""An epoch of a program as wide as one likes, with everything real but Spark: what the driver does, and its commit path.

The coordinator, readers, enumerators, manifest, storage, decision, committers and retention are those of a job on Spark. Only
the tasks are not run: each answers what a task with a state of fifty files would, and its order and its answer are
encoded and decoded as on their way to Spark and back.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
from pyspark import cloudpickle

from tidegate.backends.spi import BaseHandle, InlineChunk, KeyedHandle, StoredChunk
from tidegate.backends.storage import open_storage
from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import Delivery, Sink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.ids import OperatorUid
from tidegate.keys import range_of
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.job import Startup
from tidegate.runtime.launch import program_of
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.requests import Request, StopRequested
from tidegate.runtime.spark.attempt import SparkAttempt
from tidegate.runtime.spark.id_pool import IdHolds
from tidegate.runtime.spark.messages import Order, Outcome, ReadOrder, TaskResult, digest
from tidegate.runtime.spark.tasks import conclude, relay
from tidegate.runtime.status import RunStatus
from tidegate.twophase.spi import CommitAnswer, Committable, Committer, CommitterContext, WriterContext

__all__ = ["Epoch", "Wide"]

FILES, FILE_BYTES = 10, 16 * 1024 * 1024
SEGMENTS, SMALL_BYTES = 16, 10_000
OUT = OperatorUid("out")


@dataclass(frozen=True)
class Counted(Sink):
    """Its writers are not run; its committer says that all is visible, as a system would that takes no time."""

    delivery: Delivery = "exactly-once"

    def open_writer(self, context: WriterContext) -> Any:
        raise AssertionError("no task runs")

    def open_committer(self, context: CommitterContext) -> Committer:
        return Agreeing()


class Agreeing(Committer):
    """Commits whatever it is given."""

    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        return [CommitAnswer.COMMITTED for _ in committables]

    def abort_except(self, keep: Sequence[Committable]) -> int:
        return 0


@dataclass
class Epoch:
    """What an epoch took: seconds of the driver's own work, and bytes to Spark and back."""

    driver_s: float
    closure_bytes: int
    """What each task of a stage is sent."""
    data_bytes: int
    """What all source tasks together are sent besides."""
    answer_bytes: int


@dataclass
class Tasks:
    """Stands in for Spark and its tasks: answers at once."""

    wide: Wide
    requests: SimpleQueue[Request]
    epochs: list[Epoch] = field(default_factory=list)
    answered: float | None = None
    copied: bool = False
    at_once: int = 2
    moves_outputs: bool = False

    def run(self, order: Order, reads: Sequence[ReadOrder], title: str) -> list[Outcome]:
        """What the tasks of an epoch report; making that up is not the driver's time."""
        functions = [partial(relay, order, 0), partial(conclude, order, 1)]
        closures = [cloudpickle.dumps(function) for function in functions]
        data = [pickle.dumps(read, pickle.HIGHEST_PROTOCOL) for read in reads]
        pause = SYSTEM_CLOCK.monotonic()
        answers = [
            pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL) for outcome in self.wide.outcomes(order, reads)
        ]
        made_up = SYSTEM_CLOCK.monotonic() - pause
        outcomes: list[Outcome] = [pickle.loads(answer) for answer in answers]  # noqa: S301  # our own bytes
        before, self.answered = self.answered, SYSTEM_CLOCK.monotonic()
        if before is not None:
            sizes = (max(map(len, closures)), sum(map(len, data)), sum(map(len, answers)))
            self.epochs.append(Epoch(self.answered - before - made_up, *sizes))
        if len(self.epochs) == self.wide.count:
            self.requests.put(StopRequested())
        return outcomes

    def close(self) -> None:
        """Nothing runs."""


class Wide:
    """A job of `partitions` source and as many keyed subtasks that commits, over `count` epochs, on a directory.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     epochs = Wide(Path(root), partitions=3, count=2).run()
        >>> len(epochs), epochs[-1].closure_bytes > 0
        (2, True)
    """

    def __init__(self, root: Path, partitions: int, count: int) -> None:
        self.count = count
        self.partitions = partitions
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "local[2]",
                "parallelism.default": partitions,
                "pipeline.max-parallelism": max(128, partitions),
                "pipeline.id": "wide",
                "state.checkpoints.dir": str(root),
                "state.backend.type": "rocksdb",
            }
        )
        numbers = env.from_source(GeneratorSource(lambda number: number, None, partitions))
        numbers.key_by(lambda number: number).map(str).sink_to(Counted()).uid(OUT)
        launch = env._launch(env._taken(), "wide")
        program = program_of(launch)
        self._startup = Startup(program, open_storage(str(root)), SYSTEM_CLOCK, lambda line: None)
        self._graph = program.graph(None)
        self._max_parallelism = max(vertex.max_parallelism for vertex in self._graph.vertices.values())
        self._states: dict[int, KeyedHandle] = {}

    def run(self) -> list[Epoch]:
        """Run the epochs; what each took."""
        startup, requests = self._startup, SimpleQueue[Request]()
        tasks = Tasks(self, requests)
        startup.acquire()
        attempt = SparkAttempt(
            startup,
            startup.start_point(),
            None,  # there is no Spark
            SYSTEM_CLOCK,
            RunStatus(SYSTEM_CLOCK),
            startup.program.options.strategy(),
            lambda status: None,
            requests,
            IdHolds(0.0),
        )
        attempt._epochs.jobs = tasks  # type: ignore[assignment]  # stands in for Spark
        attempt.run()
        startup.leave("stopped")
        return tasks.epochs[: self.count]

    def newest(self) -> Manifest:
        """The newest decided checkpoint, as it is on the storage."""
        pipeline = self._startup.pipeline
        return pipeline.archive.load(pipeline.record.retained[-1])

    def outcomes(self, order: Order, reads: Sequence[ReadOrder]) -> list[Outcome]:
        """What all tasks say: each source has read on, each keyed subtask has a segment more and something to commit."""
        sources, keyed = order.shape.levels
        number = int(order.checkpoint)
        vertex, last = sources[0].vertex, keyed[0].vertex
        (uid,) = [
            uid for uid in self._graph.vertices[vertex].nodes if uid == self._graph.vertices[vertex].head.uid
        ]
        read = [
            TaskResult(
                subtask, number * 100_000 + place, (OperatorReport(uid, place, splits=read.splits),), 100
            )
            for place, (subtask, read) in enumerate(zip(sources, reads, strict=True))
        ]
        consumed = digest(result.task for result in read)
        process = self._graph.vertices[last].head.uid
        found = [Outcome(result) for result in read]
        for place, subtask in enumerate(keyed):
            self._states[place] = self._after(self._states.get(place), place, number)
            committable = Committable(OUT, place, order.checkpoint, bytes(120), f"transaction {place}", 100)
            reports = (
                OperatorReport(process, place, keyed=self._states[place]),
                OperatorReport(OUT, place, committables=(committable,)),
            )
            result = TaskResult(subtask, number * 100_000 + len(read) + place, reports, 100)
            found.append(Outcome(result, consumed))
        return found

    def _after(self, before: KeyedHandle | None, place: int, number: int) -> KeyedHandle:
        """State that is a base, and the segments since, of which the last is small enough to be in the metadata."""
        small = InlineChunk(bytes(SMALL_BYTES))
        if before is None or len(before.segments) >= SEGMENTS:
            groups = range_of(place, self.partitions, self._max_parallelism)
            files = tuple((f"{file:06}.sst", self._stored(FILE_BYTES)) for file in range(FILES))
            return KeyedHandle(groups, BaseHandle("rocksdb", 1, files), (self._stored(100), small))
        # The small one has grown too large for the metadata by now.
        return msgspec.structs.replace(
            before, segments=(*before.segments[:-1], self._stored(2 * SMALL_BYTES), small)
        )

    def _stored(self, size: int) -> StoredChunk:
        return StoredChunk(f"{self._startup.run}/shared/{new_id(32)}", size, size)
