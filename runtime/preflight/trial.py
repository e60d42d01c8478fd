"""Trial opening: opens the functions of a program over empty state with the types of a snapshot.

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
from tidegate.errors import TidegateError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.keys import ranges
from tidegate.runtime.checkpoint.manifest import OperatorState
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.chain import ChainOperators
from tidegate.runtime.operators.environment import DryRun, RestoredOperator, environment_of
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.options import JobOptions
from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["Tried", "stored_lists", "stored_states", "tried"]


@dataclass(frozen=True, slots=True)
class Tried:
    """What the functions of a step asked for when they were opened, or why they could not be."""

    states: frozenset[str] = frozenset()
    error: TidegateError | None = None
    opened: bool = True
    """False for sources and sinks: which state their functions use is not known."""


def stored_states(operator: OperatorState, files: SnapshotFiles) -> tuple[tuple[StateEntry, ...], ...]:
    """The tables of keyed state that the subtasks of an operator wrote, each once.

    Raises:
        StateCorruptError: a file is missing or damaged.
    """
    return tuple(dict.fromkeys(table_of(handle, files) for handle in operator.keyed))


def stored_lists(operator: OperatorState) -> dict[str, OperatorList]:
    """Operator state by name, without items."""
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
    with _opening(vertex, restored, backend) as operators:
        for node in vertex.nodes.values():
            if node.kind.role in (Role.SOURCE, Role.SINK, Role.SIDE_OUTPUT):
                continue
            try:
                operators.open(node)
            except TidegateError as error:
                yield node, Tried(error=error)
                continue
            store = operators.stores.get(node.uid)
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
def _opening(
    vertex: JobVertex, restored: Mapping[OperatorUid, RestoredOperator], backend: Backend
) -> Iterator[ChainOperators]:
    with ExitStack() as stack:
        directory = stack.enter_context(OwnedDirectory("trial"))
        env = environment_of(
            vertex,
            vertex.subtasks[0],
            DryRun(JobOptions()),
            attempt="trial",
            clock=SYSTEM_CLOCK,
            backend=backend,
            state=BackendContext(directory, StorageFiles(MemoryStorage().blobs, "trial"), {}),
            checkpoint=CheckpointId(1) if restored else None,
            restored=restored,
        )
        operators = ChainOperators(vertex, env)
        stack.callback(operators.close)
        yield operators
