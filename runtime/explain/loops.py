"""Generated code of each chain, for records with and without timestamps.

The chains are set up as they would be, except that nothing is opened that belongs to the user or reaches outside:
functions keep their `open` to themselves and sinks write nowhere.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate import registry
from tidegate.backends.spi import Backend, BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.spi import Sink
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.explain.explained import Explained
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.operators.chain import OperatorChain
from tidegate.runtime.operators.environment import ChainEnvironment, DryRun, environment_of
from tidegate.runtime.options import JobOptions
from tidegate.runtime.stream.functions import Function
from tidegate.runtime.working_directory import OwnedDirectory
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["loops"]


def loops(program: Explained) -> str:
    """The loops of all chains, each under a comment that says whose it is."""
    return "\n".join(
        part
        for number, vertex in enumerate(program.job.vertices.values(), 1)
        for part in _of_chain(f"# chain {number}: {vertex.name}", vertex)
    )


def _of_chain(heading: str, vertex: JobVertex) -> Iterator[str]:
    sides = sorted({edge.side for edge in vertex.inputs}) or [0]
    with _opened(vertex) as chain:
        for side in sides:
            for timed in (False, True):
                which = f", input {side + 1}" if len(sides) > 1 else ""
                times = "records with timestamps" if timed else "records without timestamps"
                yield f"{heading}\n# {times}{which}\n{chain.data.explain(timed, side)}"


@contextlib.contextmanager
def _opened(vertex: JobVertex) -> Iterator[OperatorChain]:
    harmless = dataclasses.replace(
        vertex,
        nodes={
            uid: dataclasses.replace(node, payload=_harmless(node.payload))
            for uid, node in vertex.nodes.items()
        },
    )
    with OwnedDirectory("explain") as directory:
        chain = OperatorChain(harmless, _environment(vertex, directory), _Nowhere())
        try:
            chain.open()
            yield chain
        finally:
            chain.close()


def _harmless(payload: Any) -> Any:
    if isinstance(payload, Sink):
        return _NoSink()
    if isinstance(payload, Function):
        quiet = copy.copy(payload)
        vars(quiet).update(open=_nothing, close=_nothing)
        return quiet
    return payload


def _environment(vertex: JobVertex, directory: Path) -> ChainEnvironment:
    backend: Backend = registry.load("tidegate.backends", "heap")()
    files = StorageFiles(MemoryStorage().blobs, "explain")
    return environment_of(
        vertex,
        Subtask(vertex.id, 0),
        DryRun(JobOptions()),
        attempt="explain",
        clock=SYSTEM_CLOCK,
        backend=backend,
        state=BackendContext(directory, files, {}),
    )


class _NoSink(Sink):
    delivery = "none"

    def open_writer(self, context: WriterContext) -> SinkWriter:
        return _NoWriter()


class _NoWriter(SinkWriter):
    def write(self, batch: Batch) -> None: ...

    def prepare(self, checkpoint: CheckpointId) -> None: ...


class _Nowhere:
    def emit(self, edge: JobEdge, batch: Batch) -> None: ...

    def watermark(self, edge: JobEdge, timestamp: int) -> None: ...

    def idle(self, edge: JobEdge, idle: bool) -> None: ...


def _nothing(*arguments: object) -> None: ...
