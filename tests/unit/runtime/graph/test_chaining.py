"""Seven conditions for sharing a thread, each alone enough to prevent it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.ids import OperatorUid
from tidegate.runtime.graph.chaining import (
    CONDITIONS,
    Condition,
    chaining_enabled,
    equal_parallelism,
    forward,
    obstacles,
    one_input,
    same_slot_sharing_group,
    source_chains_on,
    target_chains_to_source,
)
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import StreamEdge, StreamGraph, build_stream_graph
from tidegate.runtime.graph.transformations import Rebalance, Transformation

Step = Callable[..., Transformation]
Break = Callable[[StreamGraph], StreamGraph]


def chained(*sinks: Transformation, **settings: Any) -> JobGraph:
    return build_job_graph(build_stream_graph(sinks, **{"parallelism": 2, **settings}))


def names(graph: JobGraph) -> list[str]:
    return [" ".join(str(uid) for uid in vertex.nodes) for vertex in graph.vertices.values()]


def node(uid: str, **changes: Any) -> Break:
    """Changes one node of a resolved graph."""
    key = OperatorUid(uid)
    return lambda graph: dataclasses.replace(
        graph, nodes={**graph.nodes, key: dataclasses.replace(graph.nodes[key], **changes)}
    )


def edges(change: Callable[[tuple[StreamEdge, ...]], tuple[StreamEdge, ...]]) -> Break:
    return lambda graph: dataclasses.replace(graph, edges=change(graph.edges))


BREAKS: dict[Condition, Break] = {
    equal_parallelism: node("map-1", parallelism=3),
    one_input: edges(lambda all_edges: (*all_edges, dataclasses.replace(all_edges[0]))),
    same_slot_sharing_group: node("map-1", slot_sharing_group="other"),
    target_chains_to_source: node("map-1", chaining="head"),
    source_chains_on: node("source-1", chaining="never"),
    forward: edges(
        lambda all_edges: (dataclasses.replace(all_edges[0], partition=Rebalance()), *all_edges[1:])
    ),
    chaining_enabled: lambda graph: dataclasses.replace(graph, chaining=False),
}


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(condition, id=condition.__name__, marks=mark)
        for condition, mark in zip(
            CONDITIONS,
            [
                pytest.mark.spec("000/CHAIN-03"),
                pytest.mark.spec("000/CHAIN-04"),
                pytest.mark.spec("000/CHAIN-05"),
                pytest.mark.spec("000/CHAIN-06"),
                pytest.mark.spec("000/CHAIN-07"),
                pytest.mark.spec("000/CHAIN-08"),
                pytest.mark.spec("000/CHAIN-09"),
            ],
            strict=True,
        )
    ],
)
def test_breaking_one_condition_alone_prevents_the_chain(step: Step, condition: Condition) -> None:
    whole = build_stream_graph([step("sink", step("map", step("source")))], parallelism=2)
    edge = whole.edges[0]
    assert obstacles(whole, edge) == []
    assert len(build_job_graph(whole).vertices) == 1

    broken = BREAKS[condition](whole)

    edge = broken.edges[0]
    assert [each for each in CONDITIONS if not each(broken, edge)] == [condition]
    assert obstacles(broken, edge) == [CONDITIONS[condition]]
    assert any(
        exchange.target == "map-1" for exchange in build_job_graph(broken).vertices["source-1"].outputs
    )


def test_sources_head_chains_and_other_steps_stand_anywhere(step: Step) -> None:
    graph = build_stream_graph([step("sink", step("map", step("source")))], parallelism=1)

    assert [each.chaining for each in graph.nodes.values()] == ["head", "always", "always"]


@pytest.mark.parametrize(
    ("chaining", "expected"),
    [
        ("always", ["source-1 filter-1 map-1 map-2 sink-1"]),
        ("head", ["source-1 filter-1", "map-1 map-2 sink-1"]),
        ("never", ["source-1 filter-1", "map-1", "map-2 sink-1"]),
    ],
)
def test_a_step_says_with_which_neighbours_it_is_chained(
    step: Step, chaining: str, expected: list[str]
) -> None:
    middle = step("map", step("filter", step("source")), chaining=chaining)

    assert names(chained(step("sink", step("map", middle)))) == expected


def test_without_chaining_every_step_is_a_vertex(step: Step) -> None:
    graph = chained(step("sink", step("map", step("source"))), chaining=False)

    assert names(graph) == ["source-1", "map-1", "sink-1"]


def test_a_side_output_stays_with_its_step_and_ends_its_chain_where_that_does(step: Step) -> None:
    source = step("source")
    alone = step("process", source, chaining="never")
    late = step("side", alone, name="late")

    graph = chained(step("sink", alone), step("sink", step("map", late)))

    assert names(graph) == ["source-1", "process-1 late-1", "sink-1", "map-1 sink-2"]


@pytest.mark.spec("000/SHARE-07")
def test_a_step_inherits_the_slot_sharing_group_all_its_inputs_have(step: Step) -> None:
    left = step("source", slot_sharing_group="one")
    right = step("source", slot_sharing_group="two")
    same = step("map", step("map", left), step("map", left))
    mixed = step("map", left, right)
    own = step("map", left, slot_sharing_group="three")

    graph = build_stream_graph([step("sink", same), step("sink", mixed), step("sink", own)], parallelism=1)

    groups = {str(uid): each.slot_sharing_group for uid, each in graph.nodes.items()}
    assert [groups[f"sink-{number}"] for number in (1, 2, 3)] == ["one", "default", "three"]
