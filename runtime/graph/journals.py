"""Which operators keep every change of their state with the record that made it, and who has to know for that.

A change can be told only if its record still knows where it was read: so all chains from the sources to such an
operator carry that along, and no others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidegate.errors import ConfigError
from tidegate.runtime.graph.job_graph import JobEdge, JobGraph

__all__ = ["journaled"]


def journaled(graph: JobGraph, operators: Collection[str]) -> JobGraph:
    """The graph with journals of some operators with keyed state, by uid; of all, if none is named.

    A batch job has none.

    Raises:
        ConfigError: an operator is not there, or has no keys.
    """
    keyed = {name for name, vertex in graph.vertices.items() if vertex.keyed is not None}
    if unknown := sorted(set(operators) - keyed):
        raise ConfigError(
            f"no operator with keys has uid {unknown[0]!r}; got it in state.log.operators; "
            f"known are {', '.join(sorted(keyed)) or 'none'}"
        )
    if graph.batch:
        return graph
    chosen = set(operators) or keyed
    traced = set(chosen)
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
                journaled=name in chosen,
            )
            for name, vertex in graph.vertices.items()
        },
    )
