"""Test harness: feeds records, watermarks and time to the steps of a program one by one, and returns their output.

The steps run as in a job, including exchanges and state; the test replaces the sources, the sinks and the clock.

Example:
    >>> from tidegate.datastream import KeyedProcessFunction, state
    >>> class Remind(KeyedProcessFunction):
    ...     last = state.Value(str)
    ...
    ...     def process_element(self, value, ctx):
    ...         self.last.update(value[1])
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
    ...
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.last.value()
    >>> with Harness(lambda stream: stream.key_by(lambda pair: pair[0]).process(Remind())) as harness:
    ...     harness.push(("ada", "tea"), timestamp=5)
    ...     harness.watermark(14), harness.take()
    ...     harness.watermark(15), harness.take()
    (None, [])
    (None, [('ada', 'tea')])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import repeat
from sys import maxsize
from typing import Any, ClassVar, Self, TypeAlias

from tidegate import registry
from tidegate.backends.keyed.descriptors import StateDescriptor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Backend, BackendContext, Timer
from tidegate.backends.storage.files import StorageFiles
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.elements import Barrier, Batch, Element, RowKind, Watermark
from tidegate.errors import ConfigError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, Subtask
from tidegate.keys import canonical, key_bytes, key_group, owner
from tidegate.row import kinds_of
from tidegate.runtime.checkpoint import manifest
from tidegate.runtime.checkpoint.assemble import operator_state
from tidegate.runtime.checkpoint.protocol import Ack, Decline, Settled
from tidegate.runtime.checkpoint.restore import Restored, adopt_max_parallelism, redistribute
from tidegate.runtime.graph.job_graph import JobVertex, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.operators.environment import DryRun, OperatorReport, environment_of
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.options import JobOptions
from tidegate.runtime.shipping import pack_vertices, unpack
from tidegate.runtime.stream.datastream import DataStream
from tidegate.runtime.stream.environment import StreamExecutionEnvironment
from tidegate.runtime.stream.tags import OutputTag
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.downstream import DownstreamTask
from tidegate.runtime.task.exchange import ChannelId, RecordWriter, channels_into, channels_out_of
from tidegate.runtime.task.messages import Failed, FromSubtask
from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["Harness", "HarnessSnapshot"]

_Taken: TypeAlias = tuple[Any, int | None, RowKind]


@dataclass(frozen=True, slots=True)
class HarnessSnapshot:
    """A checkpoint of the steps in memory: its metadata and the files that the metadata names."""

    metadata: bytes
    storage: MemoryStorage


class Harness:
    """Runs the steps that `build` creates from one stream, or from as many as it has parameters.

    `parallelism` subtasks run each step in one thread; a single subtask uses the given function objects, several use
    copies, as in a job. `side_outputs` are the side outputs of the last step that `take` returns. With `restored` the
    steps start from a snapshot, at any parallelism. `close` closes the functions.

    Raises:
        ConfigError: `build` does not take streams and return one.
    """

    clock_type: ClassVar[type[ManualClock]] = ManualClock
    cache_entries: ClassVar[int] = 100
    """How many rows of state are kept as objects; few, so that tests see state that has left the cache."""
    backend_options: Mapping[str, Any] = {}

    def __init__(
        self,
        build: Callable[..., DataStream],
        *,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        side_outputs: Iterable[OutputTag] = (),
        backend: str = "heap",
        restored: HarnessSnapshot | None = None,
        now_ms: int = 0,
    ) -> None:
        self.clock = self.clock_type(now_ms)
        self._storage = restored.storage if restored is not None else MemoryStorage()
        before = manifest.decode(restored.metadata, "snapshot") if restored is not None else None
        self._number = before.checkpoint if before is not None else CheckpointId(0)
        program = _Program(build, tuple(side_outputs))
        self._graph = build_job_graph(
            build_stream_graph(
                program.sinks,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                restored=adopt_max_parallelism(before) if before is not None else None,
            )
        )
        self._directory = OwnedDirectory("harness")
        self._backend: Backend = registry.load("tidegate.backends", backend)()
        self._reports: list[OperatorReport] = []
        self._taken: dict[str, list[_Taken]] = {}
        self._runners: dict[Subtask, DownstreamTask] = {}
        self._sources: list[dict[str, RecordWriter]] = []
        try:
            self._connect(program, redistribute(self._graph, before) if before is not None else {})
        except BaseException:
            self.close()
            raise

    def push(self, value: Any, timestamp: int | None = None, input: int = 0) -> None:
        """Process a record of the stream number `input`."""
        self.push_batch([value], [timestamp] if timestamp is not None else None, input)

    def push_batch(self, values: list[Any], timestamps: list[int] | None = None, input: int = 0) -> None:
        """Process records as one batch; steps may take a large batch in several pieces, as in a job."""
        batch = Batch(values, timestamps, kinds=kinds_of(values))
        for gate in self._sources[input].values():
            gate.emit(batch)
        self._run()

    def watermark(self, timestamp: int, input: int | None = None) -> None:
        """Advance the watermark of one stream, or of all; due timers fire."""
        for gates in self._sources if input is None else [self._sources[input]]:
            for gate in gates.values():
                gate.broadcast(Watermark(timestamp))
        self._run()

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; due timers fire."""
        self.clock.advance(milliseconds)
        self._run()

    def take(self, side_output: OutputTag | None = None) -> list[Any]:
        """The output since the last call, of the last step or of one of its side outputs."""
        return [value for value, *_ in self._take(side_output)]

    def take_timed(self, side_output: OutputTag | None = None) -> list[tuple[Any, int | None]]:
        """Like `take`, each value with its timestamp."""
        return [(value, time) for value, time, _ in self._take(side_output)]

    def take_changes(self, side_output: OutputTag | None = None) -> list[tuple[RowKind, Any]]:
        """Like `take`, each value with its row kind."""
        return [(kind, value) for value, _, kind in self._take(side_output)]

    def state(self, key: Any, descriptor: StateDescriptor, step: str | None = None) -> Any:
        """The state of a key, to read or change; `step` is the uid, required if several steps have keyed state.

        Raises:
            ConfigError: no step has keyed state, or several have it and `step` is missing.
        """
        store, canonical_key = self._store(key, step)
        store.bind(canonical_key)
        return store.state(descriptor)

    def timers(self, *, processing_time: bool = False) -> list[Timer]:
        """The timers of all subtasks that have not fired, by time."""
        return sorted(
            timer
            for runner in self._runners.values()
            for store in runner.chain.operators.stores.values()
            for timer in (store.processing_timers if processing_time else store.event_timers).pending()
        )

    def snapshot(self) -> HarnessSnapshot:
        """Take a checkpoint as a job would: a barrier behind all records, aligned at every step."""
        self._number = CheckpointId(self._number + 1)
        self._reports.clear()
        for gates in self._sources:
            for gate in gates.values():
                gate.broadcast(Barrier(self._number))
        self._run()
        taken = manifest.encode(self._manifest())
        for runner in self._runners.values():
            runner.post(Settled(self._number))
        self._run()
        return HarnessSnapshot(taken, self._storage)

    def close(self) -> None:
        """Close functions and state."""
        for runner in self._runners.values():
            runner.close()
        self._directory.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _take(self, side_output: OutputTag | None) -> list[_Taken]:
        name = _output(side_output)
        if name not in self._taken:
            raise ConfigError(f"{side_output} is not collected; add it to side_outputs of the harness")
        taken = self._taken[name][:]
        self._taken[name].clear()
        return taken

    def _connect(self, program: _Program, restored: Restored) -> None:
        packed = pack_vertices(self._graph.vertices.values())
        for vertex in self._graph.vertices.values():
            if vertex.head.kind.role is Role.SINK:
                self._taken[vertex.head.name] = []
        for vertex in reversed(self._graph.vertices.values()):
            if vertex.head.kind.role in (Role.SOURCE, Role.SINK):
                continue
            for subtask in vertex.subtasks:
                own: JobVertex = unpack(packed[vertex.id]) if vertex.parallelism > 1 else vertex
                self._runners[subtask] = self._runner(own, subtask, restored)
        for source in program.sources:
            found = next(v for v in self._graph.vertices.values() if v.head.payload is source.payload)
            self._sources.append(self._gates(found, 0))
        for runner in self._runners.values():
            runner.open()

    def _runner(self, vertex: JobVertex, subtask: Subtask, restored: Restored) -> DownstreamTask:
        directory = self._directory.path / subtask.vertex.replace("/", "_")
        files = StorageFiles(self._storage.blobs, f"harness-{self._number}")
        env = environment_of(
            vertex,
            subtask,
            DryRun(JobOptions(cache_entries=self.cache_entries)),
            attempt="harness",
            clock=self.clock,
            backend=self._backend,
            state=BackendContext(directory, files, self.backend_options),
            checkpoint=self._number if restored else None,
            restored=restored.get(subtask),
        )
        return DownstreamTask(
            vertex,
            env,
            self._gates(vertex, subtask.index),
            self._receive,
            _AtOnce(),
            channels=channels_into(vertex, subtask.index),
            grant=lambda channel, records, limit: None,
        )

    def _gates(self, vertex: JobVertex, index: int) -> dict[str, RecordWriter]:
        outgoing = channels_out_of(vertex, index)
        return {
            edge.name: RecordWriter(
                edge,
                index,
                {each.target: self._channel(edge.target, each) for each in outgoing[edge.name]},
            )
            for edge in vertex.outputs
        }

    def _channel(self, target: str, channel: ChannelId) -> _Collecting | _Direct:
        head = self._graph.vertices[target].head
        if head.kind.role is Role.SINK:
            return _Collecting(self._taken[head.name])
        return _Direct(self._runners[Subtask(target, channel.target)], channel)

    def _run(self) -> None:
        runners = list(self._runners.values())
        while any(runner.step() for runner in runners) or any(map(self._is_due, runners)):
            pass

    def _is_due(self, runner: DownstreamTask) -> bool:
        wait_s = runner.wait_s()
        return wait_s is not None and wait_s <= 0

    def _receive(self, message: FromSubtask) -> None:
        match message:
            case Ack():
                self._reports.extend(message.reports)
            case Failed():
                raise message.error
            case Decline():
                raise ConfigError(f"the snapshot was declined: {message.error}")

    def _manifest(self) -> manifest.Manifest:
        by_uid: dict[OperatorUid, list[OperatorReport]] = {uid: [] for uid in self._graph.nodes}
        for report in sorted(self._reports, key=lambda report: report.subtask):
            by_uid[report.uid].append(report)
        return manifest.Manifest(
            pipeline=PipelineId("harness"),
            lineage=LineageId("harness"),
            branch=Branch(0),
            run=RunId("harness"),
            checkpoint=self._number,
            parent=None,
            created_ms=self.clock.now_ms(),
            operators=tuple(
                operator_state(node, by_uid[uid], None) for uid, node in self._graph.nodes.items()
            ),
            unsettled=(),
        )

    def _store(self, key: Any, step: str | None) -> tuple[KeyedStore, Any]:
        found: dict[OperatorUid, JobVertex] = {
            uid: self._graph.vertices[subtask.vertex]
            for subtask, runner in self._runners.items()
            for uid in runner.chain.operators.stores
            if step is None or uid == step
        }
        if len(found) != 1:
            raise ConfigError(
                f"state() needs one step with keyed state; got {', '.join(sorted(found)) or 'none'}; "
                "name the step by its uid"
            )
        ((uid, vertex),) = found.items()
        own = canonical(key, vertex.keyed[uid].key_type)
        group = key_group(key_bytes(own), vertex.max_parallelism)
        subtask = Subtask(vertex.id, owner(group, vertex.parallelism, vertex.max_parallelism))
        return self._runners[subtask].chain.operators.stores[uid], own


class _Program(StreamExecutionEnvironment):
    """The program under test; its sources are never read and its sinks are never opened."""

    def __init__(self, build: Callable[..., DataStream], side_outputs: tuple[OutputTag, ...]) -> None:
        super().__init__({"execution.target": "inline"})
        self.sinks: list[Transformation] = []
        self.sources: list[Transformation] = []
        streams = [self._input(number) for number, _ in enumerate(inspect.signature(build).parameters)]
        result = build(*streams)
        if not streams or not isinstance(result, DataStream):
            raise ConfigError(
                f"a harness needs a function of one stream or more that returns one; got {type(result).__name__} "
                f"of {len(streams)} streams"
            )
        for tag in (None, *side_outputs):
            stream = result if tag is None else result.get_side_output(tag)
            stream.global_().print().name(_output(tag)).set_parallelism(1)

    def add_sink(self, step: Transformation) -> None:
        """Add a step to the program."""
        self.sinks.append(step)

    def _input(self, number: int) -> DataStream:
        stream = self.from_collection([number]).uid(f"input-{number}").set_parallelism(1)
        self.sources.append(stream._transformation)
        return stream.rebalance()


class _Direct:
    """A channel with unlimited credit."""

    def __init__(self, runner: DownstreamTask, channel: ChannelId) -> None:
        self.credit = Credit(maxsize)
        self._runner = runner
        self._channel = channel

    def send(self, element: Element) -> None:
        self._runner.deliver(self._channel, element)


class _Collecting:
    """A channel that collects records."""

    def __init__(self, taken: list[_Taken]) -> None:
        self.credit = Credit(maxsize)
        self._taken = taken

    def send(self, element: Element) -> None:
        if isinstance(element, Batch):
            times, kinds = element.timestamps or repeat(None), element.kinds or repeat(RowKind.INSERT)
            self._taken += zip(element.values, times, kinds, strict=False)


class _AtOnce(Executor):
    """An executor that runs background work immediately."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _output(side_output: OutputTag | None) -> str:
    return "output" if side_output is None else f"side output {side_output.tag_id}"
