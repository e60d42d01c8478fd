"""A worker: one thread that runs the subtasks of one slot in turn, fed by one inbox.

The same class runs in a TaskManager process and, for the inline executor, in a thread of the program itself.
"""

from __future__ import annotations

import queue
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidegate.backends.spi import BackendContext
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import Clock
from tidegate.elements import Element
from tidegate.errors import InternalError, TidegateError
from tidegate.ids import Subtask
from tidegate.keys import range_of
from tidegate.runtime.embedded.deploy import Deployment
from tidegate.runtime.embedded.inbox import Inbox, Post, Shutdown, Wake
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.peers import LocalChannel, Peers
from tidegate.runtime.embedded.wire import Granted
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.event_loop import EventLoop
from tidegate.runtime.operators.measures import Measures
from tidegate.runtime.shipping import unpack
from tidegate.runtime.task.blocking import BlockingRunner
from tidegate.runtime.task.exchange import Buffer, Channel, ChannelId, Gate, channels_into, channels_out_of
from tidegate.runtime.task.gate import GateRunner
from tidegate.runtime.task.iteration import IterationRunner
from tidegate.runtime.task.messages import Failed, FromSubtask, Opened, Progress
from tidegate.runtime.task.runner import SubtaskRunner
from tidegate.runtime.task.source import SourceRunner
from tidegate.runtime.task.wire import Frame
from tidegate.runtime.working_directory import make_private, working_directory

__all__ = ["Worker"]


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
    ) -> None:
        self._deployment = deployment
        self._inbox = inbox
        self._peers = peers
        self._report = report
        self._clock = clock
        self._directory = working_directory(deployment.options.local_dirs, deployment.worker)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-background")
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="tidegate-uploads")
        self._requests = EventLoop()
        self._measures = Measures()
        self._runners: dict[Subtask, SubtaskRunner] = {}
        self._receivers: dict[ChannelId, GateRunner | BlockingRunner] = {}
        self._local: dict[ChannelId, LocalChannel] = {}
        self._current: Subtask = deployment.mine[0]
        self._reported = clock.monotonic()

    def run(self) -> None:
        """Work until shut down; a failure is reported, never raised."""
        try:
            make_private(self._directory)
            for subtask in self._deployment.mine:
                self._current = subtask
                self._build(subtask)
            for subtask, runner in self._runners.items():
                self._current = subtask
                runner.open()
            self._report(Opened(self._deployment.worker))
            while self._take_messages(self._work()):
                pass
        except TidegateError as error:
            self._report(Failed(self._current, error))
        except Exception as error:
            self._report(Failed(self._current, _internal(self._current, error)))
        finally:
            self._close()

    def _work(self) -> bool:
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
                    # The last checkpoint is settled by now, which readers may want to tell somebody.
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
                self._peers.granted(message.channel)
            case Wake():
                pass  # being taken is all it is for

    def _patience(self) -> float:
        times = [time for runner in self._runners.values() if (time := runner.wake_at()) is not None]
        if not times:
            return _PROGRESS_S
        return min(_PROGRESS_S, max(0.0, (min(times) - self._clock.now_ms()) / 1000))

    def _build(self, subtask: Subtask) -> None:
        vertex: JobVertex = unpack(self._deployment.vertices[subtask.vertex])
        gates = {
            edge.name: Gate(edge, subtask.index, {c.target: self._buffered(c, edge) for c in channels})
            for edge, channels in zip(
                vertex.outputs, channels_out_of(vertex, subtask.index).values(), strict=True
            )
        }
        env = self._environment(vertex, subtask)
        if vertex.is_source:
            self._runners[subtask] = SourceRunner(vertex, env, gates, self._report, self._background)
            return
        channels = channels_into(vertex, subtask.index)
        self._expect(vertex, channels)
        parts = (vertex, env, gates, self._report, self._background)
        runner: GateRunner | BlockingRunner
        if vertex.batch:
            memory = env.state.memory_bytes or self._deployment.options.sort_buffer_bytes
            runner = BlockingRunner(*parts, channels=channels, grant=self._grant, memory_bytes=memory)
        else:
            kind = IterationRunner if vertex.head.kind == "iterate" else GateRunner
            blocking = self._deployment.options.checkpointing != "AT_LEAST_ONCE"
            runner = kind(*parts, channels=channels, grant=self._grant, blocking=blocking)
        self._runners[subtask] = runner
        self._receivers.update(dict.fromkeys(channels, runner))

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

    def _grant(self, channel: ChannelId) -> None:
        if channel in self._local:
            self._local[channel].credit += 1
        else:
            self._peers.grant(channel)

    def _expect(self, vertex: JobVertex, channels: list[ChannelId]) -> None:
        edges = {edge.name: edge for edge in vertex.inputs}
        for channel in channels:
            edge = edges[channel.edge]
            place = self._deployment.places[Subtask(edge.source, channel.source)]
            if place != self._deployment.worker:
                self._peers.receive(channel, edge, place)

    def _environment(self, vertex: JobVertex, subtask: Subtask) -> ChainEnvironment:
        deployment = self._deployment
        blobs = deployment.storage.blobs
        files = LocalRecovery(deployment.options, deployment.run).copied(
            StorageFiles(blobs, f"{deployment.run}/shared", deployment.options.inline_bytes),
            deployment.worker,
        )
        memory = deployment.memory.get(subtask)
        if memory is not None and vertex.batch:
            memory //= 2  # the other half is for sorting its input
        return ChainEnvironment(
            subtask=subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            key_groups=range_of(subtask.index, vertex.parallelism, vertex.max_parallelism),
            pipeline=deployment.pipeline,
            lineage=deployment.lineage,
            branch=deployment.branch,
            attempt=deployment.attempt,
            clock=deployment.options.given.clock or self._clock,
            backend=deployment.backend,
            state=BackendContext(self._directory, files, deployment.options.of_backend, memory),
            cache_entries=deployment.options.cache_entries,
            checkpoint=deployment.checkpoint,
            restored=deployment.restored.get(subtask, {}),
            given=deployment.options.given,
            measures=self._measures,
            uploads=self._uploads if deployment.options.background_snapshots else None,
            incremental=deployment.options.incremental,
            requests=self._requests,
            traced=vertex.traced,
            batch=vertex.batch,
            snapshots_wait=not deployment.options.background_snapshots,
            exposed_ms=deployment.options.exposed_ms,
            wake=lambda: self._inbox.put(Wake()),
        )

    def _progress(self) -> Progress:
        read = sum(r.records for r in self._runners.values() if isinstance(r, SourceRunner))
        flow = {subtask: runner.flow() for subtask, runner in self._runners.items()}
        return Progress(self._deployment.worker, read, self._measures.measured(), flow)

    def _close(self) -> None:
        self._report(self._progress())
        # Snapshots and commits that were promised finish first: they still use the state and the sinks.
        self._background.shutdown(wait=True)
        self._requests.close()
        for subtask, runner in self._runners.items():
            try:
                runner.close()
            except TidegateError as error:
                self._report(Failed(subtask, error))
            except Exception as error:
                self._report(Failed(subtask, _internal(subtask, error)))
        # Closed state has given up its uploads; what one is in the midst of it may still read.
        self._uploads.shutdown(wait=True)
        shutil.rmtree(self._directory, ignore_errors=True)


def _internal(subtask: Subtask, error: Exception) -> InternalError:
    failure = InternalError(f"subtask {subtask}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
