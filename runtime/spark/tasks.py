"""Spark tasks: the functions that run on executors for the levels of an epoch.

Every task opens its part of the program, restored to the last decided checkpoint, processes its share of the epoch,
takes its part of the checkpoint and closes everything before it ends. An error of the program is a result like any
other, so Spark repeats only executions that died.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any, Final

import xxhash
from pyspark import TaskContext

from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import UnavailableError
from tidegate.failures import end_of
from tidegate.ids import Subtask
from tidegate.runtime.checkpoint.protocol import Ack
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.operators.environment import environment_of
from tidegate.runtime.operators.failure import OverdueError
from tidegate.runtime.shipping import adopt_main_classes, unpack
from tidegate.runtime.spark import freezing
from tidegate.runtime.spark.clock import EpochClock
from tidegate.runtime.spark.epoch_runner import (
    DeclinedError,
    StateFiles,
    WakeSignal,
    read_all,
    read_epoch,
    reports_of,
    work_all,
    work_epoch,
)
from tidegate.runtime.spark.id_pool import IdClaims, is_first_execution
from tidegate.runtime.spark.lease import watched_lease
from tidegate.runtime.spark.limit import time_limit
from tidegate.runtime.spark.local import Start, own_directory, remove_later, spill_directory, state_of
from tidegate.runtime.spark.messages import Order, Outcome, Parcel, ReadOrder, TaskResult, digest
from tidegate.runtime.spark.outbox import Outbox, Share, pieces
from tidegate.runtime.spark.restore_routing import start_of
from tidegate.runtime.spark.spilled import ReceivedFrames
from tidegate.runtime.task.blocking import BlockingTask
from tidegate.runtime.task.downstream import DownstreamTask
from tidegate.runtime.task.exchange import channels_into
from tidegate.runtime.task.messages import FromSubtask
from tidegate.runtime.task.runner import StreamTask
from tidegate.runtime.task.source import SourceTask
from tidegate.runtime.worker_lease import WorkerLease
from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["conclude", "in_order", "relay"]

_PIECE_BYTES: Final = 1024 * 1024
"""The maximum size of a parcel, unless a single frame is larger: a task of a batch job has one in memory at a time."""


def relay(order: Order, level: int, partition: int, given: Iterable[Any]) -> Iterator[tuple[int, Parcel]]:
    """Run a subtask of a level that is not the last; parcels for each partition of the next one.

    `given` is the input of a source, or parcels after an exchange.
    """
    done = _run(order, level, partition, given)
    following = order.shape.levels[level + 1]
    failed = done.failed or done.result.error is not None
    with contextlib.closing(done.outbox) as outbox:
        shares = zip(outbox.dealt(following, partition), done.starts.dealt(following, partition), strict=True)
        for target, (share, starts) in enumerate(shares):
            outcomes = done.outcomes if target == partition % len(following) else ()
            for number, (frames, last) in enumerate(pieces(share, _PIECE_BYTES)):
                parcel = Parcel(partition, done.result.task, number, _packed(frames))
                if last:
                    parcel = replace(
                        parcel, last=True, failed=failed, starts=_packed(starts), outcomes=outcomes
                    )
                yield target, parcel


def conclude(order: Order, level: int, partition: int, given: Iterable[Any]) -> Iterator[Outcome]:
    """Run a subtask of the last level; the outcome of it and of all earlier tasks that it knows of."""
    done = _run(order, level, partition, given)
    done.outbox.close()
    yield from done.outcomes


def _packed(share: Share) -> tuple[tuple[Subtask, tuple[bytes, ...]], ...]:
    return tuple((subtask, tuple(frames)) for subtask, frames in share.items())


@dataclass(frozen=True, slots=True)
class _Done:
    """One task: its outcome, the outcomes it has received, whether an earlier task failed, and its output: records, and the
    restored state of later tasks."""

    result: TaskResult
    outcomes: tuple[Outcome, ...]
    failed: bool
    outbox: Outbox
    starts: Outbox


def _run(order: Order, level: int, partition: int, given: Iterable[Any]) -> _Done:
    directory = spill_directory(order.options, partition) if order.batch else None
    outbox, onward = Outbox(directory), Outbox()
    if level == 0:
        (read,) = given
        for other, start in read.starts.items():
            if other != read.subtask:
                onward.pass_on(other, (start,))
        start = start_of(read.starts.get(read.subtask))
        result = _execute(
            order, 0, partition, read.subtask, start, (), lambda task: _read(order, read, task, outbox)
        )
        return _Done(result, (Outcome(result),), False, outbox, onward)
    subtask = order.shape.levels[level][partition]
    frames: list[bytes] | ReceivedFrames = [] if directory is None else ReceivedFrames(directory)
    starts, ends = list[bytes](), list[Parcel]()
    for parcel in in_order(given, senders=len(order.shape.levels[level - 1])):
        _sort_out(parcel.frames, subtask, frames, outbox)
        _sort_out(parcel.starts, subtask, starts, onward)
        if parcel.last:
            ends.append(replace(parcel, frames=(), starts=()))
    # In the order of the senders, not in the order of the shuffle: a repeated task must do the same.
    ends.sort(key=lambda parcel: parcel.sender)
    failed = any(parcel.failed for parcel in ends)
    if failed:
        result = TaskResult(subtask, _task_id())
    else:
        start = start_of(starts[0] if starts else None)
        senders = [parcel.task for parcel in ends]
        result = _execute(
            order, level, partition, subtask, start, senders, lambda task: _work(order, frames, task, outbox)
        )
    if isinstance(frames, ReceivedFrames):
        frames.close()
    own = Outcome(result, digest(parcel.task for parcel in ends))
    known = (outcome for parcel in ends for outcome in parcel.outcomes)
    return _Done(result, (own, *known), failed, outbox, onward)


def in_order(given: Iterable[Parcel], senders: int) -> Iterator[Parcel]:
    """The pieces of each sender in their order, independent of the order of the shuffle.

    Raises:
        UnavailableError: some are missing, or are of another execution than the rest.
    """
    due: Counter[int] = Counter()
    early: dict[tuple[int, int], Parcel] = {}
    ended: dict[int, int] = {}
    executions: dict[int, int] = {}
    for parcel in given:
        sender = parcel.sender
        if executions.setdefault(sender, parcel.task) != parcel.task:
            raise UnavailableError(
                f"spark delivered parts of two executions of task {sender}; spark repeats the task"
            )
        early[sender, parcel.number] = parcel
        while (next_one := early.pop((sender, due[sender]), None)) is not None:
            due[sender] += 1
            if next_one.last:
                ended[sender] = next_one.number
            yield next_one
    if early or len(ended) != senders:
        raise UnavailableError(
            f"spark delivered the records of {len(ended)} of {senders} tasks; spark repeats the task"
        )


def _sort_out(
    sent: Iterable[tuple[Subtask, Iterable[bytes]]],
    subtask: Subtask,
    mine: list[bytes] | ReceivedFrames,
    others: Outbox,
) -> None:
    for receiver, frames in sent:
        if receiver == subtask:
            mine.extend(frames)
        else:
            others.pass_on(receiver, frames)


class _Task:
    """One execution of a subtask: its part of the program and its progress."""

    def __init__(
        self,
        order: Order,
        subtask: Subtask,
        start: Start,
        directory: Path,
        lease: WorkerLease,
        *,
        first: bool,
    ) -> None:
        self.id = _task_id()
        self.subtask = subtask
        self.vertex: JobVertex = unpack(order.vertices[subtask.vertex])
        self.wake = WakeSignal(lease)
        self.said: list[FromSubtask] = []
        self.background = ThreadPoolExecutor(1)
        vertex, blobs = self.vertex, order.storage.blobs
        files = StateFiles(blobs, f"{order.run}/shared", order.options.inline_bytes)
        backend, state = state_of(order, subtask, start, directory, files)
        claims = IdClaims(order.storage, order.run, order.checkpoint)
        env = environment_of(
            vertex,
            subtask,
            order,
            attempt=f"{order.run}_{order.attempt}_{self.id}",
            clock=EpochClock(order.now_ms, SYSTEM_CLOCK),
            backend=backend,
            state=state,
            checkpoint=order.confirmed,
            restored=start,
        )
        self.env = replace(
            env,
            snapshots_wait=True,
            outside=SYSTEM_CLOCK,
            pool_index=cache(partial(_pool_index, claims, subtask, first=first)),
            wake=self.wake.ring,
        )

    def close(self) -> None:
        """Stop the background threads of the subtask."""
        self.env.requests.close()
        self.background.shutdown()


def _read(order: Order, read: ReadOrder, task: _Task, outbox: Outbox) -> TaskResult:
    gates = outbox.gates(task.vertex, task.subtask.index)
    runner = SourceTask(task.vertex, task.env, gates, task.said.append, task.background)
    with contextlib.closing(runner):
        runner.open()
        if order.batch:
            read_all(runner, order, read, task.said, task.wake)
        limited = not order.batch and read_epoch(runner, order, read, task.wake, lambda: outbox.bytes)
        reports = reports_of(task.said)
        chain, measured = runner.chain, task.env.measures.measured()
        promised_s, timer_ms = runner.promised_s, _timer_ms(order, runner)
        promised_ms = None if promised_s is None else max(0, int(promised_s * 1_000))
        due = [wait for wait in (promised_ms, timer_ms) if wait is not None]
        return TaskResult(
            task.subtask,
            task.id,
            reports,
            runner.records,
            min(due, default=None),
            chain.time.reached,
            runner.time,
            measured,
            limited,
            decide_by_ms=_decide_by_ms(order, task.said),
        )


def _work(order: Order, frames: list[bytes] | ReceivedFrames, task: _Task, outbox: Outbox) -> TaskResult:
    vertex, env = task.vertex, task.env
    channels = channels_into(vertex, task.subtask.index)
    parts = (vertex, env, outbox.gates(vertex, task.subtask.index), task.said.append, task.background)
    runner: StreamTask
    work: Callable[[], None]
    if isinstance(frames, ReceivedFrames):
        memory = env.state.memory_bytes or order.options.sort_buffer_bytes
        blocking = BlockingTask(*parts, channels=channels, results=frames, memory_bytes=memory)
        runner, work = blocking, partial(work_all, blocking, order, channels, task.said, task.wake)
    else:
        stream = DownstreamTask(*parts, channels=channels, grant=lambda channel, records, limit: None)
        runner, work = stream, partial(work_epoch, stream, order, vertex, frames, task.wake)
    with contextlib.closing(runner):
        runner.open()
        work()
        chain, reports, measured = runner.chain, reports_of(task.said), task.env.measures.measured()
        return TaskResult(
            task.subtask,
            task.id,
            reports,
            runner.records,
            _timer_ms(order, runner),
            chain.time.reached,
            measured=measured,
            decide_by_ms=_decide_by_ms(order, task.said),
        )


def _decide_by_ms(order: Order, said: Iterable[FromSubtask]) -> float:
    """In a batch job work prepared by an early task waits for all later tasks."""
    spare_ms = [message.spare_ms for message in said if isinstance(message, Ack)] if order.batch else []
    return min((SYSTEM_CLOCK.now_ms() + spare for spare in spare_ms), default=inf)


def _timer_ms(order: Order, runner: StreamTask) -> int | None:
    """Milliseconds until its next timer is due, by the clock of epochs."""
    timer = runner.chain.time.next_timer()
    return None if timer is None else timer - order.now_ms


def _execute(
    order: Order,
    level: int,
    partition: int,
    subtask: Subtask,
    start: Start,
    senders: Sequence[int],
    work: Callable[[_Task], TaskResult],
) -> TaskResult:
    """Run a subtask in its own directory; its exception becomes its result."""
    owned: OwnedDirectory | None = None
    try:
        owned = own_directory(order.options, partition)
        _settle_in(order, partition, subtask)
        first = _is_first(order, level, senders)
        with (
            _lease(order) as lease,
            contextlib.closing(_Task(order, subtask, start, owned.path, lease, first=first)) as task,
            time_limit(None if order.batch else order.options.timeout_ms),
        ):
            return work(task)
    except DeclinedError as declined:
        return TaskResult(subtask, _task_id(), error=UnavailableError(str(declined)), declined=True)
    except OverdueError as error:
        return TaskResult(subtask, _task_id(), error=UnavailableError(f"subtask {subtask}: {error}"))
    except BaseException as error:
        return TaskResult(subtask, _task_id(), error=end_of(f"subtask {subtask}", error))
    finally:
        if owned is not None:
            remove_later(owned)


def _settle_in(order: Order, partition: int, subtask: Subtask) -> None:
    """Prepare this process for the program: worker processes run tasks of many jobs, one at a time."""
    freezing.again()
    seed(order, subtask)
    sys.path.extend(entry for entry in order.path if entry not in sys.path)
    adopt_main_classes(order.main_classes)
    order.options.arm_faults(f"taskmanager-{partition}")


def seed(order: Order, subtask: Subtask) -> None:
    """Seed random generators in the same way for each execution of a subtask in an epoch.

    The seed is derived only from the metadata of the checkpoint.
    """
    of_epoch = f"{order.lineage}/{order.branch}/{order.checkpoint}/{subtask}"
    random.seed(of_epoch)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(xxhash.xxh32_intdigest(of_epoch.encode()))


@contextlib.contextmanager
def _lease(order: Order) -> Iterator[WorkerLease]:
    with contextlib.ExitStack() as entered:
        try:
            lease = watched_lease(
                order.storage.decisions,
                order.pipeline,
                order.run,
                order.checkpoint,
                order.options.lease_ms,
                SYSTEM_CLOCK,
            )
            held = entered.enter_context(lease)
        except UnavailableError as error:
            raise DeclinedError(str(error)) from error
        yield held


def _pool_index(claims: IdClaims, subtask: Subtask, *, first: bool) -> int:
    try:
        return claims.of(subtask, first=first)
    except UnavailableError as error:
        raise DeclinedError(str(error)) from error


def _is_first(order: Order, level: int, senders: Sequence[int]) -> bool:
    return order.since is not None and is_first_execution(
        order.shape, order.since, level, _task_id(), _attempt_number(), senders
    )


def _task_id() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.taskAttemptId())


def _attempt_number() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.attemptNumber())
