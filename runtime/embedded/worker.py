"""A worker: one thread that runs the subtasks of one slot in turn, fed by one inbox.

The same class runs in a TaskManager process and, for the inline executor, in a thread of the program itself.
"""

from __future__ import annotations

import dataclasses
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidegate.backends.spi import BackendContext, SnapshotFiles
from tidegate.backends.storage.copies import CopiedFiles
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import Clock
from tidegate.elements import Element
from tidegate.failures import end_of
from tidegate.ids import Subtask
from tidegate.runtime.embedded.messages import (
    Deployment,
    Granted,
    Inbox,
    LeaseLost,
    LeaseRenewed,
    Post,
    Shutdown,
    Wake,
)
from tidegate.runtime.embedded.peers import LocalChannel, Peers
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.operators.environment import ChainEnvironment, environment_of
from tidegate.runtime.operators.event_loop import EventLoop
from tidegate.runtime.operators.measures import Measures
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.shipping import unpack
from tidegate.runtime.task.blocking import BlockingTask, FinishedRunner
from tidegate.runtime.task.credit import LOCAL
from tidegate.runtime.task.downstream import DownstreamTask
from tidegate.runtime.task.exchange import (
    Buffer,
    Channel,
    ChannelId,
    RecordWriter,
    channels_into,
    channels_out_of,
)
from tidegate.runtime.task.frames import Frame
from tidegate.runtime.task.iteration import IterationTask
from tidegate.runtime.task.messages import Failed, FromSubtask, Opened, Progress
from tidegate.runtime.task.results import ResultGate
from tidegate.runtime.task.runner import StreamTask
from tidegate.runtime.task.source import SourceTask
from tidegate.runtime.worker_lease import WorkerLease

__all__ = ["Worker", "tell"]


_PROGRESS_S = 0.25


class Worker:
    """Builds the subtasks of a deployment and runs them until told to shut down or one fails."""

    def __init__(
        self,
        deployment: Deployment,
        inbox: Inbox,
        peers: Peers,
        report: Callable[[FromSubtask], None],
        clock: Clock,
        lease: WorkerLease,
    ) -> None:
        self._lease = lease
        self._paused = False
        self._deployment = deployment
        self._inbox = inbox
        self._peers = peers
        self._report = report
        self._clock = clock
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-background")
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="tidegate-uploads")
        self._requests = EventLoop()
        self._measures = Measures()
        self._runners: dict[Subtask, StreamTask] = {}
        self._receivers: dict[ChannelId, DownstreamTask | BlockingTask] = {}
        self._local: dict[ChannelId, LocalChannel] = {}
        self._current: Subtask = deployment.mine[0]
        self._reported = clock.monotonic()

    def run(self) -> None:
        """Work until shut down; a failure is reported, never raised."""
        try:
            for subtask in self._deployment.mine:
                self._current = subtask
                self._build(subtask)
            for subtask, runner in self._runners.items():
                self._current = subtask
                runner.open()
            self._report(Opened(self._deployment.worker))
            while self._take_messages(self._work()):
                pass
        except BaseException as error:
            self._report(Failed(self._current, end_of(f"subtask {self._current}", error)))
        finally:
            self._close()

    def _work(self) -> bool:
        self._paused = not self._lease.holds()
        if self._paused:
            return False
        busy = False
        for subtask, runner in self._runners.items():
            self._current = subtask
            busy = runner.step() or busy
        now = self._clock.monotonic()
        if now - self._reported >= _PROGRESS_S:
            self._reported = now
            self._report(self._progress())
        return busy

    def _take_messages(self, busy: bool) -> bool:
        """Empty the inbox; without work wait for the first message or the next timer. False at shutdown."""
        try:
            message = self._inbox.get_nowait() if busy else self._inbox.get(timeout=self._patience())
            while True:
                if isinstance(message, Shutdown):
                    # The final checkpoint is settled now, which readers may report to an external system.
                    for runner in self._runners.values():
                        runner.take_mail()
                    return False
                self._take(message)
                message = self._inbox.get_nowait()
        except queue.Empty:
            return True

    def _take(self, message: Post | Frame | Granted | Wake) -> None:
        match message:
            case Post():
                self._runners[message.subtask].post(message.message)
            case Frame():
                self._deliver(message.channel, self._peers.element(message))
            case Granted():
                self._peers.granted(message)
            case Wake():
                pass  # being taken is all it is for

    def _patience(self) -> float:
        waits = [wait for runner in self._runners.values() if (wait := runner.wait_s()) is not None]
        if not waits or self._paused:
            return _PROGRESS_S
        return min(_PROGRESS_S, max(0.0, min(waits)))

    def _build(self, subtask: Subtask) -> None:
        vertex: JobVertex = unpack(self._deployment.vertices[subtask.vertex])
        finished = subtask in self._deployment.finished
        gates = {
            edge.name: self._gate(edge, subtask, channels, finished=finished)
            for edge, channels in zip(
                vertex.outputs, channels_out_of(vertex, subtask.index).values(), strict=True
            )
        }
        env = self._environment(vertex, subtask)
        if vertex.is_source and not finished:
            self._runners[subtask] = SourceTask(vertex, env, gates, self._report, self._background)
            return
        channels = channels_into(vertex, subtask.index)
        self._expect(vertex, channels)
        parts = (vertex, env, gates, self._report, self._background)
        runner: DownstreamTask | BlockingTask
        if self._deployment.results is not None:
            memory = env.state.memory_bytes or self._deployment.options.sort_buffer_bytes
            results, batch = self._deployment.results, FinishedRunner if finished else BlockingTask
            runner = batch(*parts, channels=channels, results=results, memory_bytes=memory)
        else:
            kind = IterationTask if vertex.head.kind.role is Role.ITERATION else DownstreamTask
            blocking = self._deployment.options.checkpointing != "AT_LEAST_ONCE"
            runner = kind(*parts, channels=channels, grant=self._grant, blocking=blocking)
        self._runners[subtask] = runner
        self._receivers.update(dict.fromkeys(channels, runner))

    def _gate(
        self, edge: JobEdge, subtask: Subtask, channels: list[ChannelId], *, finished: bool
    ) -> RecordWriter:
        results = self._deployment.results
        if results is None or finished:
            return RecordWriter(edge, subtask.index, {c.target: self._buffered(c, edge) for c in channels})
        senders = {channel.target: self._sender(channel, edge) for channel in channels}
        writer = results.writer(edge, subtask.index)
        return ResultGate(
            subtask.index, senders, writer, self._clock, lambda: self._runners[subtask].reusable
        )

    def _buffered(self, channel: ChannelId, edge: JobEdge) -> Channel:
        own, usual = edge.buffer_timeout_ms, self._deployment.options.buffer_timeout_ms
        timeout_ms = usual if own is None else own
        sender = self._sender(channel, edge)
        return Buffer(sender, timeout_ms, self._clock) if timeout_ms else sender

    def _sender(self, channel: ChannelId, edge: JobEdge) -> Channel:
        place = self._deployment.places[Subtask(edge.target, channel.target)]
        if place != self._deployment.worker:
            return self._peers.sender(channel, edge, place)
        local = self._local[channel] = LocalChannel(channel, self._deliver)
        return local

    def _deliver(self, channel: ChannelId, element: Element) -> None:
        self._receivers[channel].deliver(channel, element)

    def _grant(self, channel: ChannelId, records: int, limit: int) -> None:
        if channel in self._local:
            self._local[channel].credit.granted(records, min(limit, LOCAL))
        else:
            self._peers.grant(channel, records, limit)

    def _expect(self, vertex: JobVertex, channels: list[ChannelId]) -> None:
        edges = {edge.name: edge for edge in vertex.inputs}
        for channel in channels:
            edge = edges[channel.edge]
            place = self._deployment.places[Subtask(edge.source, channel.source)]
            if place != self._deployment.worker:
                self._peers.receive(channel, edge, place)

    def _environment(self, vertex: JobVertex, subtask: Subtask) -> ChainEnvironment:
        deployment = self._deployment
        files: SnapshotFiles = StorageFiles(
            deployment.storage.blobs, f"{deployment.run}/shared", deployment.options.inline_bytes
        )
        if deployment.copies is not None:
            files = CopiedFiles(files, deployment.copies)
        memory = deployment.memory.get(subtask)
        if memory is not None and vertex.batch:
            memory //= 2  # the other half is for sorting its input
        options = deployment.options
        env = environment_of(
            vertex,
            subtask,
            deployment,
            attempt=deployment.attempt,
            clock=options.resources.clock or self._clock,
            backend=deployment.backend,
            state=BackendContext(deployment.directory, files, options.of_backend, memory),
            checkpoint=deployment.checkpoint,
            restored=deployment.restored.get(subtask),
        )
        return dataclasses.replace(
            env,
            measures=self._measures,
            uploads=self._uploads if options.background_snapshots else None,
            requests=self._requests,
            snapshots_wait=not options.background_snapshots,
            outside=self._clock,
            wake=lambda: self._inbox.put(Wake()),
        )

    def _progress(self) -> Progress:
        read = sum(r.records for r in self._runners.values() if isinstance(r, SourceTask))
        flow = {subtask: runner.flow() for subtask, runner in self._runners.items()}
        return Progress(self._deployment.worker, read, self._measures.measured(), flow)

    def _close(self) -> None:
        self._report(self._progress())
        # Snapshots and commits that were promised finish first: they still use the state and the sinks.
        self._background.shutdown(wait=True)
        closers = [(self._current, self._requests.close)]
        closers += [(subtask, runner.close) for subtask, runner in self._runners.items()]
        for subtask, close in closers:
            try:
                close()
            except BaseException as error:
                self._report(Failed(subtask, end_of(f"subtask {subtask}", error)))
        # Closed state has cancelled its uploads; a running one may still read its file.
        self._uploads.shutdown(wait=True)


def tell(lease: WorkerLease, said: LeaseRenewed | LeaseLost) -> None:
    """Let a worker know what its owner says of the lease."""
    if isinstance(said, LeaseLost):
        lease.lost(said.error)
    else:
        lease.renewed(said.until)
