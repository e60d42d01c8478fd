"""Failover regions: the subtasks that restart together. Pure.

A pipelined region is what exchanges connect that hand records on while they are made; an exchange that blocks cuts it.
A part of a job is one or more regions that cannot be told apart otherwise: a source deals its splits to all of its
subtasks, what a sink has not committed is known by the sink and not by its subtask, and a process ends as a whole.

Example:
    >>> joined([{1}, {2}, {3}, {1, 3}])
    [frozenset({1, 3}), frozenset({2})]
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.operators.operator import Role

__all__ = ["joined", "parts", "pipelined_regions", "running_again"]

T = TypeVar("T", bound=Hashable)


def pipelined_regions(graph: JobGraph) -> list[frozenset[Subtask]]:
    """The regions of a job, in the order of their first subtasks."""
    exchanges = (
        (Subtask(edge.source, index), Subtask(edge.target, target))
        for vertex in graph.vertices.values()
        for edge in vertex.outputs
        if not edge.blocking
        for index in range(edge.source_parallelism)
        for target in edge.reached_from(index)
    )
    return joined([*((subtask,) for subtask in graph.subtasks), *exchanges])


def parts(graph: JobGraph, places: Mapping[Subtask, int]) -> list[frozenset[Subtask]]:
    """What can restart while the rest runs on, given the process of each subtask.

    A batch job is one part, as its processes run tasks of all regions in turn; what does not have to run again is
    decided when it restarts, see `running_again`.
    """
    if graph.batch:
        return [frozenset(graph.subtasks)]
    whole = [vertex.subtasks for vertex in graph.vertices.values() if _meets_outside(vertex)]
    processes: dict[int, list[Subtask]] = {}
    for subtask, place in places.items():
        processes.setdefault(place, []).append(subtask)
    return joined([*pipelined_regions(graph), *whole, *processes.values()])


def running_again(graph: JobGraph, finished: Collection[Subtask]) -> frozenset[Subtask]:
    """Which subtasks of a batch job the next attempt runs, given those whose results are there.

    What has read an earlier result of one that runs again reads the new one: records can come in another order, or be
    dealt to others. The subtasks of one source share its splits, so they run together.
    """
    again = set(graph.subtasks).difference(finished)
    for vertex in graph.vertices.values():  # upstream first
        if vertex.is_source and again.intersection(vertex.subtasks):
            again.update(vertex.subtasks)
        for edge in vertex.outputs:
            for subtask in again.intersection(vertex.subtasks):
                again.update(Subtask(edge.target, index) for index in edge.reached_from(subtask.index))
    return frozenset(again)


def joined(groups: Iterable[Iterable[T]]) -> list[frozenset[T]]:
    """The groups, those that have a member in common made one; ordered by the member that was seen first."""
    found: dict[T, list[T]] = {}
    for group in groups:
        first, *others = group
        mine = found.setdefault(first, [first])
        for other in others:
            theirs = found.setdefault(other, [other])
            if theirs is mine:
                continue
            mine += theirs
            found.update(dict.fromkeys(theirs, mine))
    return list(dict.fromkeys(frozenset(members) for members in found.values()))


def _meets_outside(vertex: JobVertex) -> bool:
    return vertex.is_source or any(node.kind.role is Role.SINK for node in vertex.nodes.values())
