"""Runs one subtask for one epoch: the runner of the other executors, with all its input available.

It processes all input of the epoch, waits for asynchronous requests, then takes its part of the checkpoint.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

import msgspec

from tidegate.backends.spi import Chunk
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import SYSTEM_CLOCK
from tidegate.elements import Barrier, EndOfInput
from tidegate.errors import ConfigError, InternalError, UnavailableError
from tidegate.runtime.checkpoint.protocol import Ack, Decline, Settled, Trigger
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.spark.messages import Order, ReadOrder
from tidegate.runtime.task.blocking import BlockingTask
from tidegate.runtime.task.downstream import DownstreamTask
from tidegate.runtime.task.exchange import ChannelId, channels_into
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.messages import (
    AssignSplits,
    Drained,
    EndInput,
    Failed,
    FromSubtask,
    NoMoreSplits,
    ReadUntil,
    ToEnumerator,
)
from tidegate.runtime.task.runner import StreamTask
from tidegate.runtime.task.source import SourceTask
from tidegate.runtime.worker_lease import WorkerLease

__all__ = [
    "DeclinedError",
    "StateFiles",
    "WakeSignal",
    "read_all",
    "read_epoch",
    "reports_of",
    "work_all",
    "work_epoch",
]

_PATIENCE_S: Final = 0.5
"""How long an epoch waits for records that a reader announces for later."""

_THOROUGH_S: Final = 5.0
"""The same if there is no later epoch."""

_LISTEN_S: Final = 1.0
_PAUSE_S: Final = 0.1

_FRAMES: Final = msgspec.msgpack.Decoder(Frame)


class DeclinedError(UnavailableError):
    """The storage cannot read or write files of a checkpoint; this may be temporary, and the program has not failed."""


class StateFiles(StorageFiles):
    """The files of state; if they cannot be written, the epoch is declined."""

    def fetch(self, chunk: Chunk) -> bytes:
        """As in the base class, but raises a DeclinedError if the storage did not answer."""
        try:
            return super().fetch(chunk)
        except UnavailableError as error:
            raise DeclinedError(str(error)) from error


class WakeSignal:
    """Wakes the subtask's thread when the result of an asynchronous request arrives.

    Args:
        lease: The lease of the run; the subtask pauses while it may have expired.
    """

    def __init__(self, lease: WorkerLease) -> None:
        self._lease = lease
        self._rung = threading.Event()

    def ring(self) -> None:
        """Wake the thread; safe to call from any thread."""
        self._rung.set()

    def work(
        self, runner: StreamTask, awaits: Callable[[], float], behind: Callable[[], None] = lambda: None
    ) -> None:
        """Run the steps of a runner until it is idle and `awaits` returns 0; `awaits` returns how many seconds to wait for more work.

        `behind` is called after each step.
        """
        while True:
            self._hold()
            self._rung.clear()
            worked = runner.step()
            behind()
            if not worked:
                if (seconds := awaits()) <= 0:
                    return
                self._rung.wait(seconds)

    def _hold(self) -> None:
        try:
            while not self._lease.holds():
                SYSTEM_CLOCK.sleep(_PAUSE_S)
        except UnavailableError as silent:
            raise DeclinedError(str(silent)) from silent


def read_epoch(
    runner: SourceTask, order: Order, read: ReadOrder, wake: WakeSignal, sent: Callable[[], int]
) -> bool:
    """Read from the positions that a task is given, and take its part of the checkpoint.

    `sent` says how many bytes have been sent on. Returns whether a limit was reached: of records, bytes, or time.
    """
    runner.post(AssignSplits(read.splits))
    if read.complete:
        runner.post(NoMoreSplits())
    if read.until_ms is not None:
        runner.post(ReadUntil(read.until_ms))
    runner.take_mail()
    runner.resume_time(order.since_ms)
    if order.confirmed is not None:
        runner.begin_settled(order.confirmed)
    runner.left = read.limit
    patience = _Patience(runner, thorough=read.thorough)
    until = SYSTEM_CLOCK.monotonic() + order.options.epoch_reading_ms / 1_000

    def admit() -> None:
        if sent() >= order.options.epoch_bytes or SYSTEM_CLOCK.monotonic() >= until:
            runner.left = 0

    wake.work(runner, patience.left_s, admit)
    limited, runner.left = runner.left == 0, 0
    if read.ending or (read.complete and not runner.unread(order.checkpoint)):
        runner.post(EndInput())
    _end(runner, wake)
    runner.post(Trigger(order.checkpoint, order.confirmed))
    wake.work(runner, partial(_until, runner.chain.operators.empty))
    return limited


def work_epoch(
    runner: DownstreamTask, order: Order, vertex: JobVertex, frames: Iterable[bytes], wake: WakeSignal
) -> None:
    """Process the received records channel by channel, and take its part of the checkpoint."""
    wires = {edge.name: EdgeCodec(edge) for edge in vertex.inputs}
    lanes: defaultdict[ChannelId, list[Frame]] = defaultdict(list)
    for data in frames:
        frame = _FRAMES.decode(data)
        lanes[frame.channel].append(frame)
    runner.resume_time(order.since_ms)
    if order.confirmed is not None:
        runner.post(Settled(order.confirmed))
    wake.work(runner, partial(_until, runner.chain.operators.ready))
    # In the order of the channels, not in the order of the shuffle: a repeated task must do the same.
    for turn in zip_longest(*(lanes[channel] for channel in sorted(lanes))):
        for frame in turn:
            if frame is not None:
                runner.deliver(frame.channel, wires[frame.channel.edge].element(frame))
        wake.work(runner, partial(_until, runner.chain.operators.ready))
    _end(runner, wake)
    for channel in channels_into(vertex, runner.subtask.index):
        runner.deliver(channel, Barrier(order.checkpoint, order.confirmed))
    wake.work(runner, partial(_until, runner.chain.operators.empty))


def read_all(
    runner: SourceTask, order: Order, read: ReadOrder, said: Sequence[FromSubtask], wake: WakeSignal
) -> None:
    """Read all splits to their ends and take the part of a batch job's one checkpoint; `said` is the report of the task."""
    runner.post(AssignSplits(read.splits))
    runner.post(NoMoreSplits())
    wake.work(runner, partial(_until_said, runner, said, Drained))
    runner.post(Trigger(order.checkpoint, order.confirmed))
    wake.work(runner, partial(_until_said, runner, said, (Ack, Decline, Failed)))


def work_all(
    runner: BlockingTask,
    order: Order,
    channels: Iterable[ChannelId],
    said: Sequence[FromSubtask],
    wake: WakeSignal,
) -> None:
    """Process what the task has received, once it is complete, and take the part of a batch job's one checkpoint."""
    for channel in channels:
        runner.deliver(channel, EndOfInput())
        runner.deliver(channel, Barrier(order.checkpoint, order.confirmed))
    wake.work(runner, partial(_until_said, runner, said, (Ack, Decline, Failed)))


def reports_of(said: Iterable[FromSubtask]) -> tuple[OperatorReport, ...]:
    """A subtask's part of the checkpoint, durable.

    Raises:
        ConfigError: a reader sent an event to its enumerator, which is not supported here.
        DeclinedError: the storage could not store it.
        TidegateError: it could not be taken.
    """
    for message in said:
        match message:
            case Ack():
                return message.reports
            case Decline(error=UnavailableError() as reason):
                raise DeclinedError(str(reason)) from reason
            case Decline() | Failed():
                raise message.error
            case ToEnumerator():
                raise ConfigError(
                    f"source {message.uid!r}: reader {message.reader} sends an event, and readers live no longer than an "
                    "epoch here; set continuous = True in the source, and run it embedded"
                )
    raise InternalError(
        "a subtask has not taken its part of the checkpoint; expected it to, as all input is there"
    )


def _end(runner: StreamTask, wake: WakeSignal) -> None:
    """Wait for the results of all asynchronous requests, and fire processing-time timers."""
    wake.work(runner, partial(_until, runner.chain.operators.empty))
    runner.chain.time.end_epoch()
    wake.work(runner, partial(_until, runner.chain.operators.empty))


def _until(come: Callable[[], bool]) -> float:
    return 0.0 if come() else _LISTEN_S


def _until_said(runner: StreamTask, said: Sequence[FromSubtask], what: type | tuple[type, ...]) -> float:
    if any(isinstance(message, what) for message in said):
        return 0.0
    wait_s = runner.wait_s()
    return _LISTEN_S if wait_s is None else min(_LISTEN_S, max(0.001, wait_s))


class _Patience:
    """How long to wait for a reader: half a second in total, or, for a thorough read, after each of its records."""

    def __init__(self, runner: SourceTask, *, thorough: bool) -> None:
        self._runner = runner
        self._thorough = thorough
        self._left = runner.left
        now = SYSTEM_CLOCK.monotonic()
        self._longest = now + (_THOROUGH_S if thorough else _PATIENCE_S)
        self._deadline = self._longest

    def left_s(self) -> float:
        """How long to wait for room in the queue, or for records that the reader has announced."""
        runner, now = self._runner, SYSTEM_CLOCK.monotonic()
        if not runner.chain.operators.ready():
            return _LISTEN_S
        if runner.left == 0 or runner.promised_s is None:
            return 0.0
        if self._thorough and runner.left != self._left:
            self._left, self._deadline = runner.left, min(self._longest, now + _PATIENCE_S)
        return min(max(0.001, runner.promised_s), self._deadline - now)
