from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import UNION, Forward, Hash, Input, Rebalance, Transformation
from tidegate.runtime.operators.functions import FLAT_MAP

Step = Callable[..., Transformation]


def chains(*sinks: Transformation, parallelism: int = 2) -> JobGraph:
    return build_job_graph(build_stream_graph(sinks, parallelism=parallelism))


def test_steps_of_equal_parallelism_share_a_vertex(step: Step) -> None:
    graph = chains(step("sink", step("filter", step("map", step("source")))))

    (vertex,) = graph.vertices.values()
    assert vertex.name == "Source: CollectionSource -> Map -> Filter -> Sink: PrintSink"
    assert vertex.is_source
    assert graph.subtasks == [Subtask("source-1", 0), Subtask("source-1", 1)]


def test_a_key_begins_a_vertex_that_knows_how_its_input_is_keyed(step: Step) -> None:
    by_key = Hash(abs)

    graph = chains(step("sink", step("process", step("source"), partition=by_key)))

    source, keyed = graph.vertices.values()
    assert (source.name, keyed.name) == ("Source: CollectionSource", "Process -> Sink: PrintSink")
    assert keyed.keyed == {keyed.head.uid: by_key}
    assert source.keyed == {}
    assert [edge.name for edge in keyed.inputs] == ["source-1->process-1"]


@pytest.mark.parametrize("change", ["rebalance", "parallelism"])
def test_a_chain_ends_where_records_change_subtasks(step: Step, change: str) -> None:
    source = step("source")
    after = (
        step("map", source, partition=Rebalance())
        if change == "rebalance"
        else step("map", source, parallelism=3)
    )

    graph = chains(step("sink", after, parallelism=after.parallelism))

    assert [vertex.name for vertex in graph.vertices.values()] == [
        "Source: CollectionSource",
        "Map -> Sink: PrintSink",
    ]
    assert graph.slots == (2 if change == "rebalance" else 3)


def test_a_chain_may_fan_out_within_one_vertex(step: Step) -> None:
    source = step("source")

    graph = chains(step("sink", step("map", source)), step("sink", step("filter", source)))

    (vertex,) = graph.vertices.values()
    assert {str(uid): [*map(str, after)] for uid, after in vertex.follows.items()} == {
        "source-1": ["map-1", "filter-1"],
        "map-1": ["sink-1"],
        "sink-1": [],
        "filter-1": ["sink-2"],
        "sink-2": [],
    }


def test_a_step_with_two_inputs_begins_a_vertex(step: Step) -> None:
    left, right = step("source", name="left"), step("source", name="right")

    graph = chains(step("sink", step("map", left, right, name="union")))

    assert [vertex.name for vertex in graph.vertices.values()] == [
        "Source: left",
        "Source: right",
        "union -> Sink: PrintSink",
    ]


def test_two_edges_between_the_same_steps_have_names_of_their_own(step: Step) -> None:
    source = step("source")

    graph = chains(step("sink", step("map", source, source, name="union")))

    names = [edge.name for edge in graph.vertices["union-1"].inputs]
    assert names == ["source-1->union-1", "source-1->union-1#1"]


def test_a_chain_never_nests_deeper_than_python_allows(step: Step) -> None:
    stream = step("source")
    for _ in range(40):
        stream = step("flat_map", stream)

    graph = chains(step("sink", stream))

    assert sum(len(vertex.nodes) for vertex in graph.vertices.values()) == 42
    nested = [[n for n in v.nodes.values() if n.kind is FLAT_MAP] for v in graph.vertices.values()]
    assert all(len(steps) <= 16 for steps in nested)
    assert len(nested) == 3


@pytest.mark.parametrize(("second", "keyed"), [(Hash(abs), True), (Rebalance(), False), (None, False)])
def test_a_union_is_keyed_only_if_all_of_it_is(
    step: Step, second: Hash | Rebalance | None, keyed: bool
) -> None:
    inputs = (Input(step("source"), Hash(abs)), Input(step("source"), second))
    union = Transformation(UNION, "union", None, inputs)

    graph = chains(step("sink", step("map", union)))

    assert bool(graph.vertices["map-1"].keyed) is keyed
    assert [edge.source for edge in graph.vertices["map-1"].inputs] == ["source-1", "source-2"]


def test_how_a_union_is_dealt_beats_how_its_inputs_are(step: Step) -> None:
    inner = Transformation(UNION, "inner", None, (Input(step("source"), Rebalance()), Input(step("source"))))
    outer = Transformation(UNION, "outer", None, (Input(inner), Input(step("source"))))

    dealt = chains(step("sink", step("map", outer, partition=Hash(abs)))).vertices["map-1"].inputs
    left_alone = chains(step("sink", step("map", outer))).vertices["map-1"].inputs

    assert [edge.partition for edge in dealt] == [Hash(abs)] * 3
    assert [edge.partition for edge in left_alone] == [Rebalance(), Forward(), Forward()]


@pytest.mark.parametrize(("mode", "blocking"), [("BATCH", True), ("STREAMING", False)])
def test_exchanges_of_batch_jobs_block(step: Step, mode: Any, blocking: bool) -> None:
    total = step("reduce", step("source"), partition=Hash(abs))
    graph = build_job_graph(build_stream_graph([step("sink", total)], parallelism=2, mode=mode))

    assert [edge.blocking for vertex in graph.vertices.values() for edge in vertex.outputs] == [blocking]
