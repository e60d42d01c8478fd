"""State journals: which operators log each change of their state with the record that caused it.

An entry of the journal names the origin of the record, so all chains from the sources to such an operator carry the
origin of each record; other chains do not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidegate.errors import ConfigError
from tidegate.runtime.graph.job_graph import JobEdge, JobGraph

__all__ = ["journaled"]


def journaled(graph: JobGraph, operators: Collection[str]) -> JobGraph:
    """The graph with journals of some operators with keyed state, by uid; if none is named, of all.

    A batch job has no journals.

    Raises:
        ConfigError: an operator does not exist or is not keyed.
    """
    keyed = {str(uid) for vertex in graph.vertices.values() for uid in vertex.keyed}
    if unknown := sorted(set(operators) - keyed):
        raise ConfigError(
            f"state.log.operators names uid {unknown[0]!r}; no keyed operator has it; "
            f"keyed operators are {', '.join(sorted(keyed)) or 'none'}"
        )
    if graph.batch:
        return graph
    chosen = set(operators) or keyed
    traced = {name for name, vertex in graph.vertices.items() if chosen.intersection(vertex.keyed)}
    while more := {edge.source for name in traced for edge in graph.vertices[name].inputs} - traced:
        traced |= more

    def carrying(edges: tuple[JobEdge, ...]) -> tuple[JobEdge, ...]:
        return tuple(replace(edge, traced=edge.target in traced) for edge in edges)

    return replace(
        graph,
        vertices={
            name: replace(
                vertex,
                inputs=carrying(vertex.inputs),
                outputs=carrying(vertex.outputs),
                journaled=tuple(uid for uid in vertex.keyed if uid in chosen),
            )
            for name, vertex in graph.vertices.items()
        },
    )
