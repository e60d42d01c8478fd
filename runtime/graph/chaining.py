"""Chaining conditions: two steps share a thread only if all seven hold.

Steps in one chain hand records over by function calls; every edge on which a condition fails becomes an exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from tidegate.runtime.graph.transformations import Forward

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamEdge, StreamGraph

__all__ = [
    "CONDITIONS",
    "Condition",
    "chaining_enabled",
    "equal_parallelism",
    "forward",
    "obstacles",
    "one_input",
    "same_slot_sharing_group",
    "source_chains_on",
    "target_chains_to_source",
]

Condition: TypeAlias = "Callable[[StreamGraph, StreamEdge], bool]"


def equal_parallelism(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Both steps have as many subtasks."""
    return graph.nodes[edge.source].parallelism == graph.nodes[edge.target].parallelism


def one_input(graph: StreamGraph, edge: StreamEdge) -> bool:
    """The second step has no other input."""
    return len(graph.inputs(edge.target)) == 1


def same_slot_sharing_group(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Both steps may share a slot."""
    return graph.nodes[edge.source].slot_sharing_group == graph.nodes[edge.target].slot_sharing_group


def target_chains_to_source(graph: StreamGraph, edge: StreamEdge) -> bool:
    """The second step may be chained to its input."""
    return graph.nodes[edge.target].chaining == "always"


def source_chains_on(graph: StreamGraph, edge: StreamEdge) -> bool:
    """The first step may be followed by another one in its chain."""
    return graph.nodes[edge.source].chaining in ("always", "head")


def forward(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Records stay in their subtask."""
    return isinstance(edge.partition, Forward)


def chaining_enabled(graph: StreamGraph, edge: StreamEdge) -> bool:
    """The program has not switched chaining off."""
    return graph.chaining


CONDITIONS: Final[dict[Condition, str]] = {
    equal_parallelism: "parallelism differs",
    one_input: "the downstream step has several inputs",
    same_slot_sharing_group: "slot sharing groups differ",
    target_chains_to_source: "the downstream step starts a chain",
    source_chains_on: "the upstream step ends its chain",
    forward: "records are repartitioned",
    chaining_enabled: "chaining is off",
}
"""Each condition with the reason that is shown if it fails."""


def obstacles(graph: StreamGraph, edge: StreamEdge) -> list[str]:
    """The reasons why the two steps of `edge` cannot be chained; empty if they can."""
    return [why for condition, why in CONDITIONS.items() if not condition(graph, edge)]
