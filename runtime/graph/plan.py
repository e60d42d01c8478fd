"""The plan of a program as JSON, in the form that Flink's plan visualizer draws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tidegate.runtime.graph.chaining import obstacles
from tidegate.runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from tidegate.runtime.graph.transformations import Forward, Partition
from tidegate.runtime.operators.operator import Role

__all__ = ["plan_json", "real_inputs", "ship_strategy"]


def plan_json(graph: StreamGraph) -> str:
    """Every step with its predecessors; sinks come last.

    Ids have gaps: partitions have ids too, but are not steps. The steps of an iteration are listed in its
    `step_function`.
    """
    rounds = graph.iterations
    inside = {uid for body in rounds.values() for uid in body}
    steps = [node for node in graph.nodes.values() if node.kind.role is not Role.SIDE_OUTPUT]
    steps.sort(key=lambda node: (node.kind.role is Role.SINK, node.number))
    described = {step.uid: _node(graph, step) for step in steps}
    for head, body in rounds.items():
        described[head]["step_function"] = [described[uid] for uid in described if uid in body]
    return json.dumps({"nodes": [each for uid, each in described.items() if uid not in inside]}, indent=2)


def ship_strategy(partition: Partition) -> str:
    """The name of a partitioning in plans."""
    return "FORWARD" if isinstance(partition, Forward) else type(partition).__name__.upper()


def real_inputs(graph: StreamGraph, node: StreamNode) -> Iterator[tuple[StreamNode, StreamEdge]]:
    """The predecessors of a step, without side outputs, which belong to the step that emits them, and feedback edges."""
    for edge in graph.inputs(node.uid):
        if edge.feedback:
            continue
        source = graph.nodes[edge.source]
        while source.kind.role is Role.SIDE_OUTPUT:
            source = graph.nodes[graph.inputs(source.uid)[0].source]
        yield source, edge


_PACTS: Final = {
    Role.SOURCE: "Data Source",
    Role.SINK: "Data Sink",
    Role.ITERATION: "IterativeDataStream",
}


def _node(graph: StreamGraph, node: StreamNode) -> dict[str, Any]:
    described = {
        "id": node.number,
        "type": node.title,
        "pact": _PACTS.get(node.kind.role, "Operator"),
        "contents": node.title,
        "parallelism": node.parallelism,
    }
    predecessors = [
        # The visualizer's format has two sides; Flink writes streams as the second.
        {"id": source.number, "ship_strategy": ship_strategy(edge.partition), "side": "second"}
        | ({"exchange": "blocking"} if graph.batch and obstacles(graph, edge) else {})
        for source, edge in real_inputs(graph, node)
    ]
    return {**described, "predecessors": predecessors} if predecessors else described
