"""A chain of operators at work in one subtask: what a record meets between two exchanges.

The chain knows nothing of threads, channels or executors. It takes batches and moments in time, calls `emit` for
what leaves through an exchange, and reports its part of a checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from tidegate import faults
from tidegate.backends.keyed.store import KeyedStore
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.codegen import Compiled, Stage, compile_stages
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.failure import blame, explain
from tidegate.runtime.operators.keyed import KeyedProcess
from tidegate.runtime.operators.sink import SinkOperator
from tidegate.runtime.stream.functions import Function, as_callable

__all__ = ["Emit", "OperatorChain", "PendingReports"]


class Emit(Protocol):
    """Takes what leaves the chain through an exchange."""

    def __call__(self, edge: JobEdge, batch: Batch) -> None:
        """Deal the batch to the subtasks behind `edge`."""
        ...


PendingReports = Callable[[], list[OperatorReport]]
"""The slow part of a snapshot; may run in another thread while records go on."""


class OperatorChain:
    """Opens, feeds, snapshots and closes the operators of one vertex in one subtask."""

    def __init__(self, vertex: JobVertex, env: ChainEnvironment, emit: Emit) -> None:
        self._vertex = vertex
        self._env = env
        self._names: dict[str, Any] = {}
        self._functions: list[tuple[StreamNode, Function]] = []
        self._takers: list[Callable[[Batch], None]] = []
        self._sinks: list[SinkOperator] = []
        self._keyed: KeyedProcess | None = None
        self._compiled: dict[tuple[bool, bool], Compiled] = {}
        self._numbers = {uid: number for number, uid in enumerate(vertex.nodes)}
        self._outputs = {uid: self._open_outputs(uid, emit) for uid in vertex.nodes}
        self._head = self._stage(vertex.head.uid, stateful=vertex.head.kind == "process")
        self._behind = dataclasses.replace(self._head, kind="pass")

    def open(self) -> None:
        """Open state, functions and writers, restored to what the environment says."""
        for node in self._vertex.nodes.values():
            if node.kind in ("source", "sink"):
                continue
            store = self._open_store(node.uid) if node.kind == "process" else None
            number = self._numbers[node.uid]
            context = OperatorContext(node.name, self._env.subtask, self._env.parallelism, store)
            if store is not None:
                self._keyed = KeyedProcess(node.payload, store, self._env.clock)
                self._names[f"bind{number}"] = store.bind
                self._names[f"ctx{number}"] = self._keyed.context
            if isinstance(node.payload, Function):
                self._functions.append((node, node.payload))
                with blame(node, self._env.subtask, "open"):
                    node.payload.open(context)
            self._names[f"f{number}"] = as_callable(node.payload)
        for sink in self._sinks:
            sink.open()

    def process(self, batch: Batch) -> None:
        """Pass every record through the whole chain."""
        if self._keyed is not None and batch.keys is not None:
            self._keyed.store.prefetch(batch.keys)
        self._run(False, batch)
        if self._keyed is not None:
            self._keyed.store.end_batch()
        faults.point("task.after-batch")

    def advance_watermark(self, timestamp: int) -> None:
        """Fire the event-time timers that are due."""
        if self._keyed is not None:
            with blame(self._vertex.head, self._env.subtask, f"a timer due by watermark {timestamp}"):
                values, times = self._keyed.advance_watermark(timestamp)
            if values:
                self._run(True, Batch(values, times))

    def advance_processing_time(self, now_ms: int) -> None:
        """Fire the processing-time timers that are due."""
        if self._keyed is not None:
            with blame(self._vertex.head, self._env.subtask, f"a timer due by {now_ms}"):
                values = self._keyed.advance_processing_time(now_ms)
            if values:
                self._run(True, Batch(values))

    def next_timer(self) -> int | None:
        """When the next processing-time timer is due."""
        return self._keyed.store.processing_timers.next_time() if self._keyed is not None else None

    def snapshot(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> PendingReports:
        """Take the state at a barrier; `confirmed` is the newest decided checkpoint."""
        faults.point("task.before-snapshot")
        reports = [sink.snapshot(checkpoint, confirmed) for sink in self._sinks]
        if self._keyed is None:
            return lambda: reports
        pending = self._keyed.store.snapshot(checkpoint, confirmed)
        uid, index = self._vertex.head.uid, self._env.subtask.index
        return lambda: [*reports, OperatorReport(uid, index, keyed=pending.finish())]

    def close(self) -> None:
        """Close functions, writers and state; all of them, even if one fails."""
        closers: list[Callable[[], None]] = [partial(self._close_function, *each) for each in self._functions]
        closers += [sink.close for sink in self._sinks]
        if self._keyed is not None:
            closers.append(self._keyed.store.close)
        _call_all(closers)

    def explain(self, timed: bool = False) -> str:
        """The source of the generated loop."""
        return self._loop(False, timed).source

    def _close_function(self, node: StreamNode, function: Function) -> None:
        with blame(node, self._env.subtask, "close"):
            function.close()

    def _run(self, behind: bool, batch: Batch) -> None:
        loop = self._loop(behind, batch.timestamps is not None)
        try:
            results = loop.run(batch.values, batch.timestamps, batch.keys)
        except Exception as error:
            raise explain(error, loop, batch, self._vertex, self._env.subtask) from error
        for take, (values, times) in zip(self._takers, results, strict=True):
            if values:
                take(Batch(values, times))

    def _loop(self, behind: bool, timed: bool) -> Compiled:
        compiled = self._compiled.get((behind, timed))
        if compiled is None:
            stage = self._behind if behind else self._head
            name = f"{self._env.subtask}{' timers' * behind}"
            compiled = compile_stages(name, stage, len(self._takers), self._names, timed=timed)
            self._compiled[behind, timed] = compiled
        return compiled

    def _stage(self, uid: OperatorUid, *, stateful: bool) -> Stage:
        node = self._vertex.nodes[uid]
        children = [child for child in self._vertex.follows[uid] if self._vertex.nodes[child].kind != "sink"]
        return Stage(
            uid,
            self._numbers[uid],
            "pass" if node.kind in ("source", "sink") else node.kind,
            tuple(self._stage(child, stateful=stateful) for child in children),
            self._outputs[uid],
            isolated=stateful or len(self._takers) > 1,
        )

    def _open_outputs(self, uid: OperatorUid, emit: Emit) -> tuple[int, ...]:
        first = len(self._takers)
        for edge in self._vertex.outputs:
            if edge.node == uid:
                self._takers.append(lambda batch, edge=edge: emit(edge, batch))  # type: ignore[misc] # bound per edge
        followers = self._vertex.follows[uid]
        sinks = [child for child in followers if self._vertex.nodes[child].kind == "sink"]
        if self._vertex.nodes[uid].kind == "sink" and uid == self._vertex.head.uid:
            sinks.append(uid)
        for child in sinks:
            sink = SinkOperator(self._vertex.nodes[child], self._env)
            self._sinks.append(sink)
            self._takers.append(sink.write)
        return tuple(range(first, len(self._takers)))

    def _open_store(self, uid: OperatorUid) -> KeyedStore:
        directory = self._env.directory(uid)
        restored = self._env.operator(uid)
        return KeyedStore(
            self._env.backend,
            self._env.key_groups,
            self._env.max_parallelism,
            restored.keyed,
            dataclasses.replace(self._env.state, directory=directory),
            cache_entries=self._env.cache_entries,
        )


def _call_all(closers: list[Callable[[], None]]) -> None:
    errors: list[Exception] = []
    for close in closers:
        try:
            close()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
