"""Redistributes the state of a checkpoint to the subtasks of a job graph, at any parallelism. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from tidegate.backends.spi import KeyedHandle
from tidegate.errors import ConfigError, StateFormatError
from tidegate.ids import OperatorUid, Subtask
from tidegate.keys import KeyGroupRange, range_of
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.operators.operator_list import OperatorList, joined

__all__ = ["Restored", "adopt_max_parallelism", "holds_state", "redistribute"]

Restored = dict[Subtask, dict[OperatorUid, RestoredOperator]]


def redistribute(
    graph: JobGraph, manifest: Manifest, *, unclaimed: bool = False, onward: bool = False
) -> Restored:
    """What every operator of every subtask starts from; `unclaimed` state may be left behind.

    `onward` where subtasks are opened anew but nothing was restored: each has what it had, of a union too, which would grow
    with every time it is given to all.

    Raises:
        ConfigError: the checkpoint holds state that the program has no operator for.
        StateFormatError: subtasks disagree about the type of an operator state.
    """
    nodes = graph.nodes
    for operator in manifest.operators:
        if operator.uid not in nodes and holds_state(operator) and not unclaimed:
            raise ConfigError(
                f"checkpoint {manifest.checkpoint} holds state of operator {operator.uid!r}, which this program does not have; "
                f"known are {', '.join(sorted(nodes))}; give an operator this uid, name the operator "
                f"that gets its state with --map {operator.uid}=NEW, drop its state with --allow-non-restored-state, "
                "or start without state with --fresh"
            )
    return {
        subtask: share
        for vertex in graph.vertices.values()
        for subtask, share in _shares(vertex, manifest, onward, unclaimed).items()
    }


def adopt_max_parallelism(manifest: Manifest) -> dict[OperatorUid, int]:
    """The numbers of key groups that state was written with; they win over defaults."""
    return {
        operator.uid: operator.max_parallelism
        for operator in manifest.operators
        if operator.keyed or operator.by_key_group
    }


def holds_state(operator: OperatorState) -> bool:
    """Whether there is something to lose."""
    lists = any(each.count for lists in operator.lists for each in lists)
    return lists or bool(operator.keyed or operator.splits or operator.writers or operator.in_flight)


def _shares(vertex: JobVertex, manifest: Manifest, onward: bool, unclaimed: bool) -> Restored:
    """What each subtask of a vertex starts from."""
    found: Restored = {subtask: {} for subtask in vertex.subtasks}
    for uid in vertex.nodes:
        state = manifest.operator(uid)
        holders = _holders(state.keyed if state is not None else ())
        for subtask in vertex.subtasks:
            found[subtask][uid] = msgspec.structs.replace(
                _share(vertex, subtask, state, holders, onward), may_leave=unclaimed
            )
    return found


def _holders(handles: Sequence[KeyedHandle]) -> Mapping[int, list[int]]:
    """Which handles hold a key group, by their place: looking at every handle for every subtask takes for ever in a
    wide program."""
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for place, handle in enumerate(handles):
        for group in range(handle.key_groups.first, handle.key_groups.last):
            holders[group].append(place)
    return holders


def _share(
    vertex: JobVertex,
    subtask: Subtask,
    state: OperatorState | None,
    holders: Mapping[int, list[int]],
    onward: bool,
) -> RestoredOperator:
    if state is None:
        return RestoredOperator()
    mine = range_of(subtask.index, vertex.parallelism, vertex.max_parallelism)
    places = {place for group in range(mine.first, mine.last) for place in holders.get(group, ())}
    keyed = tuple(state.keyed[place] for place in sorted(places))
    names = {each.name: each for lists in state.lists for each in lists}
    return RestoredOperator(
        keyed,
        state.writers[subtask.index :: vertex.parallelism],
        tuple(_deal(each, state, vertex.parallelism, subtask.index, mine, onward) for each in names.values()),
        state.in_flight,
        state.times,
        state.parallelism,
    )


def _deal(
    sample: OperatorList,
    state: OperatorState,
    parallelism: int,
    index: int,
    mine: KeyGroupRange,
    onward: bool,
) -> OperatorList:
    """One subtask's part of what all subtasks held under a name."""
    held = [each for lists in state.lists for each in lists if each.name == sample.name]
    if differing := {each.stored for each in held} - {sample.stored}:
        raise StateFormatError(
            f"operator {state.uid!r}: subtasks stored {sample.name!r} with different types; got {differing.pop()}; "
            f"expected {sample.stored}; declare it in every subtask, or restore an older checkpoint"
        )
    match sample.dealt:
        case "union" if onward and len(held) == parallelism:
            return held[index]
        case "union":
            return joined(held)
        case "broadcast":
            return held[index % len(held)]
        case "key group":
            return joined(held).of_groups(mine)
        case "split" if len(held) == parallelism:
            return held[index]
        case "split":
            every = joined(held)
            share, more = divmod(every.count, parallelism)
            first = index * share + min(index, more)
            return every.part(first, first + share + (index < more))
