"""What runs on the executors: the two stages of an epoch.

Every task opens its part of the program anew, restored to the last decided checkpoint, works off its share of the
epoch, takes its part of the checkpoint and closes everything before it ends. An error of the program is a result
like any other, so Spark repeats only executions that died.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from pyspark import TaskContext

from tidegate import faults
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import SYSTEM_CLOCK
from tidegate.elements import MAX_WATERMARK, Batch
from tidegate.errors import InternalError, TidegateError
from tidegate.ids import Subtask
from tidegate.keys import ranges
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.operators.chain import OperatorChain
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.shipping import adopt_main_classes, unpack
from tidegate.runtime.spark.clock import EpochClock
from tidegate.runtime.spark.messages import Header, Order, Outcome, Parcel, ReadOrder, TaskResult
from tidegate.runtime.spark.reading import read_splits
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.in_flight import resumed
from tidegate.runtime.task.routing import Route, router
from tidegate.runtime.task.wire import EdgeWire, Frame
from tidegate.runtime.working_directory import make_private, working_directory

__all__ = ["receive", "run_alone", "send"]

_FRAMES = msgspec.msgpack.Decoder(Frame)


def send(order: Order, partition: int, reads: Iterable[ReadOrder]) -> Iterator[tuple[int, Parcel]]:
    """Read one source subtask's share; a parcel for each partition behind the exchange."""
    (read,) = reads
    targets = len(order.shape.targets)
    outgoing = _Outgoing(order, read.subtask.index)
    result = _execute(order, partition, read.subtask, lambda task: _read(order, read, task, outgoing))
    header = Header(read.subtask, result.task, result.finished, result.error is not None)
    for target, frames in enumerate(outgoing.frames):
        yield target, Parcel(header, tuple(frames), result if target == partition % targets else None)


def receive(order: Order, partition: int, parcels: Iterable[tuple[int, Parcel]]) -> Iterator[Outcome]:
    """Work off what all source tasks sent to one subtask behind the exchange."""
    # In the order of the sources, whatever order the shuffle delivers in: a repeat does the same.
    sent = sorted((parcel for _, parcel in parcels), key=lambda parcel: parcel.header.subtask)
    subtask = order.shape.targets[partition]
    if any(parcel.header.failed for parcel in sent):
        result = TaskResult(subtask, _task_id())
    else:
        result = _execute(order, partition, subtask, lambda task: _work(order, sent, task))
    upstream = tuple(parcel.result for parcel in sent if parcel.result is not None)
    yield Outcome(result, tuple(parcel.header for parcel in sent), upstream)


def run_alone(order: Order, partition: int, reads: Iterable[ReadOrder]) -> Iterator[Outcome]:
    """Read one source subtask's share in a program without an exchange."""
    (read,) = reads
    outgoing = _Outgoing(order, read.subtask.index)
    yield Outcome(_execute(order, partition, read.subtask, lambda task: _read(order, read, task, outgoing)))


class _Task:
    """One execution of a subtask: its part of the program and where it stands."""

    def __init__(self, order: Order, subtask: Subtask, directory: Path) -> None:
        self.id = _task_id()
        self.subtask = subtask
        self.vertex: JobVertex = unpack(order.vertices[subtask.vertex])
        vertex, blobs = self.vertex, order.storage.blobs
        files = StorageFiles(blobs, f"{order.run}/shared", order.options.inline_bytes)
        self.env = ChainEnvironment(
            subtask=subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            key_groups=ranges(vertex.parallelism, vertex.max_parallelism)[subtask.index],
            pipeline=order.pipeline,
            lineage=order.lineage,
            branch=order.branch,
            attempt=f"{order.run}_{order.attempt}_{self.id}",
            clock=EpochClock(order.now_ms, SYSTEM_CLOCK),
            backend=order.backend,
            state=BackendContext(directory, files, order.options.of_backend),
            cache_entries=order.options.cache_entries,
            checkpoint=order.confirmed,
            restored=order.restored.get(subtask, {}),
            given=order.options.given,
            incremental=order.options.incremental,
            traced=vertex.traced,
        )

    def report(self, order: Order, chain: OperatorChain) -> tuple[OperatorReport, ...]:
        """The chain's part of the checkpoint, durable."""
        pending = chain.snapshot(order.checkpoint, order.confirmed)
        faults.point("task.after-snapshot")
        reports = tuple(pending())
        faults.point("task.before-ack")
        return reports


class _Outgoing:
    """Collects what leaves through exchanges, encoded, by partition."""

    def __init__(self, order: Order, index: int) -> None:
        self.frames: list[list[bytes]] = [[] for _ in order.shape.targets]
        self._shape = order.shape
        self._index = index
        self._routes: dict[str, Route] = {}
        self._wires: dict[str, EdgeWire] = {}

    def emit(self, edge: JobEdge, batch: Batch) -> None:
        """Deal a batch."""
        if edge.name not in self._routes:
            self._routes[edge.name] = router(edge, self._index)
            self._wires[edge.name] = EdgeWire(edge)
        for target, share in self._routes[edge.name](batch):
            frame = self._wires[edge.name].encode(ChannelId(edge.name, self._index, target), share)
            self.frames[self._shape.partition(edge.target, target)].append(frame)

    def watermark(self, edge: JobEdge, timestamp: int) -> None:
        """Only the end of the input comes here, and each parcel's header says that."""

    def idle(self, edge: JobEdge, idle: bool) -> None:
        """Nothing makes watermarks here, so nothing waits for one."""


def _read(order: Order, read: ReadOrder, task: _Task, outgoing: _Outgoing) -> TaskResult:
    with contextlib.closing(OperatorChain(task.vertex, task.env, outgoing)) as chain:
        chain.open()
        _resume(task, chain)
        done = read_splits(task.vertex, read, order.checkpoint, chain.process)
        if done.finished:
            chain.advance_watermark(MAX_WATERMARK)
        splits = OperatorReport(task.vertex.head.uid, task.subtask.index, splits=done.splits)
        reports = (splits, *task.report(order, chain))
        return TaskResult(task.subtask, task.id, reports, done.records, done.finished, done.wake_ms)


def _work(order: Order, parcels: list[Parcel], task: _Task) -> TaskResult:
    wires = {edge.name: EdgeWire(edge) for edge in task.vertex.inputs}
    sides = {edge.name: edge.side for edge in task.vertex.inputs}
    outgoing = _Outgoing(order, task.subtask.index)
    with contextlib.closing(OperatorChain(task.vertex, task.env, outgoing)) as chain:
        chain.open()
        chain.advance_processing_time(order.now_ms)
        _resume(task, chain)
        for parcel in parcels:
            for data in parcel.frames:
                frame = _FRAMES.decode(data)
                batch = wires[frame.channel.edge].element(frame)
                assert isinstance(batch, Batch)
                chain.process(batch, sides[frame.channel.edge])
        chain.advance_processing_time(order.now_ms)
        upstream = {edge.source for edge in task.vertex.inputs}
        if all(parcel.header.finished for parcel in parcels if parcel.header.subtask.vertex in upstream):
            chain.advance_watermark(MAX_WATERMARK)
        reports = task.report(order, chain)
        return TaskResult(task.subtask, task.id, reports, wake_ms=chain.next_timer())


def _resume(task: _Task, chain: OperatorChain) -> None:
    """Work off what another executor's checkpoint has overtaken. Watermarks come again, as only ends of inputs make any."""
    for uid, side, element in resumed(task.vertex, task.env):
        if isinstance(element, Batch):
            chain.process(element, side, at=uid)


def _execute(
    order: Order, partition: int, subtask: Subtask, work: Callable[[_Task], TaskResult]
) -> TaskResult:
    """Run a subtask in a directory of its own; what it raises becomes its result."""
    directory = working_directory(order.options.local_dirs, partition)
    try:
        make_private(directory)
        _settle_in(order, partition)
        return work(_Task(order, subtask, directory))
    except TidegateError as error:
        return TaskResult(subtask, _task_id(), error=error)
    except Exception as error:
        failure = InternalError(f"subtask {subtask}: {type(error).__name__}: {error}")
        return TaskResult(subtask, _task_id(), error=failure)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _settle_in(order: Order, partition: int) -> None:
    """Make this process one of the program's: worker processes serve many jobs, one task at a time."""
    sys.path.extend(entry for entry in order.path if entry not in sys.path)
    adopt_main_classes(order.main_classes)
    order.options.arm_faults(f"taskmanager-{partition}")


def _task_id() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.taskAttemptId())
