"""Opens the functions of a program as its first subtask would, against the types of stored state but none of its content.

What a function asks for, and whether that can be read, is known only to the code that runs in a job: so that code runs,
here, over empty state. Sources are not opened, and nothing that writes output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import msgspec

from tidegate.backends.keyed.segment import Segment, encode_segment
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Backend, BackendContext, InlineChunk, KeyedHandle, SnapshotFiles
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.backends.timeline import table_of
from tidegate.clock import SYSTEM_CLOCK
from tidegate.elements import Batch
from tidegate.errors import TidegateError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId
from tidegate.keys import ranges
from tidegate.runtime.checkpoint.manifest import OperatorState
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.chain import OperatorChain
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["Tried", "stored_lists", "stored_states", "tried"]


@dataclass(frozen=True, slots=True)
class Tried:
    """What the functions of a step asked for when they were opened, or why they could not be."""

    states: frozenset[str] = frozenset()
    error: TidegateError | None = None
    opened: bool = True
    """False for sources and sinks: what their functions ask for is not known."""


def stored_states(operator: OperatorState, files: SnapshotFiles) -> tuple[tuple[StateEntry, ...], ...]:
    """The tables of keyed state that the subtasks of an operator wrote, each once.

    Raises:
        StateCorruptError: a file is missing or damaged.
    """
    return tuple(dict.fromkeys(table_of(handle, files) for handle in operator.keyed))


def stored_lists(operator: OperatorState) -> dict[str, OperatorList]:
    """What an operator keeps beside its keys, by name, without items."""
    held = {each.name: each for lists in operator.lists for each in lists}
    return {
        name: msgspec.structs.replace(each, items=(), pieces=msgspec.UNSET, groups=each.groups and ())
        for name, each in held.items()
    }


def tried(
    vertex: JobVertex,
    stored: Mapping[OperatorUid, OperatorState],
    files: SnapshotFiles,
    backend: Backend,
    *,
    unclaimed: bool = False,
) -> Iterator[tuple[StreamNode, Tried]]:
    """Open the steps of a chain, one after the other; what was opened is closed at the end.

    With `unclaimed` state may be left behind.
    """
    restored = {uid: _empty(stored[uid], files, vertex, unclaimed) for uid in vertex.nodes if uid in stored}
    with _chain(vertex, restored, backend) as chain:
        for node in vertex.nodes.values():
            if node.kind in ("source", "sink", "side"):
                continue
            try:
                chain.open_step(node)
            except TidegateError as error:
                yield node, Tried(error=error)
                continue
            store = chain.stores.get(node.uid)
            yield node, Tried(frozenset(store.slots if store is not None else ()))


def _empty(
    operator: OperatorState, files: SnapshotFiles, vertex: JobVertex, unclaimed: bool
) -> RestoredOperator:
    groups = ranges(1, vertex.max_parallelism)[0]
    tables = stored_states(operator, files)
    return RestoredOperator(
        keyed=tuple(
            KeyedHandle(groups, None, (InlineChunk(encode_segment(Segment(table, []))),)) for table in tables
        ),
        lists=tuple(stored_lists(operator).values()),
        may_leave=unclaimed,
    )


@contextmanager
def _chain(
    vertex: JobVertex, restored: Mapping[OperatorUid, RestoredOperator], backend: Backend
) -> Iterator[OperatorChain]:
    with ExitStack() as stack:
        directory = stack.enter_context(OwnedDirectory("trial"))
        env = ChainEnvironment(
            subtask=vertex.subtasks[0],
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            key_groups=ranges(vertex.parallelism, vertex.max_parallelism)[0],
            pipeline=PipelineId("trial"),
            lineage=LineageId("trial"),
            branch=Branch(0),
            attempt="trial",
            clock=SYSTEM_CLOCK,
            backend=backend,
            state=BackendContext(directory, StorageFiles(MemoryStorage().blobs, "trial"), {}),
            cache_entries=1,
            checkpoint=CheckpointId(1) if restored else None,
            restored=restored,
        )
        chain = OperatorChain(vertex, env, _Nowhere())
        stack.callback(chain.close)
        yield chain


class _Nowhere:
    """Functions that are only opened send nothing."""

    def emit(self, edge: JobEdge, batch: Batch) -> None:
        """Nobody takes it."""

    def watermark(self, edge: JobEdge, timestamp: int) -> None:
        """Nobody waits for it."""

    def idle(self, edge: JobEdge, idle: bool) -> None:
        """Nobody waits for it."""
