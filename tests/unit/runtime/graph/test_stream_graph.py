from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.graph.stream_graph import StreamGraph, build_stream_graph
from tidegate.runtime.graph.transformations import Forward, Hash, Rebalance, Transformation

Step = Callable[..., Transformation]


def build(*sinks: Transformation, parallelism: int = 2, **settings: object) -> StreamGraph:
    return build_stream_graph(sinks, parallelism=parallelism, **settings)  # type: ignore[arg-type] # by keyword


def test_a_program_without_a_sink_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the program has no sink.*sink_to\(\.\.\.\) or print\(\)"):
        build()


def test_steps_without_a_uid_are_numbered_by_name_in_program_order(step: Step) -> None:
    source = step("source", name="numbers")
    first = step("map", source)
    second = step("map", first)

    graph = build(step("sink", second))

    assert list(graph.nodes) == ["numbers-1", "map-1", "map-2", "sink-1"]


def test_a_generated_uid_gives_way_to_a_given_one(step: Step) -> None:
    source = step("source", name="numbers")
    given = step("map", source, uid="map-1")

    graph = build(step("sink", step("map", given)))

    assert list(graph.nodes) == ["numbers-1", "map-1", "map-2", "sink-1"]


def test_a_uid_given_twice_is_refused_with_its_count(step: Step) -> None:
    source = step("source", uid="one")

    with pytest.raises(ConfigError, match="uid 'one' is given to 2 operators; state is restored by uid"):
        build(step("sink", step("map", source, uid="one")))


def test_a_step_that_two_sinks_share_is_one_node(step: Step) -> None:
    shared = step("map", step("source"))

    graph = build(step("sink", shared), step("sink", shared))

    assert list(graph.nodes) == ["source-1", "map-1", "sink-1", "sink-2"]
    assert [edge.target for edge in graph.outputs(OperatorUid("map-1"))] == ["sink-1", "sink-2"]


def test_equal_parallelism_forwards_and_unequal_deals_in_turn(step: Step) -> None:
    graph = build(step("sink", step("map", step("source"), parallelism=3), parallelism=3))

    partitions = {edge.target: edge.partition for edge in graph.edges}
    assert partitions == {"map-1": Rebalance(), "sink-1": Forward()}


def test_a_chosen_partition_stays_even_between_equal_parallelism(step: Step) -> None:
    by_key = Hash(abs)

    graph = build(
        step(
            "sink",
            step("map", step("source"), partition=by_key),
            partition=Rebalance(),
        )
    )

    assert [edge.partition for edge in graph.edges] == [by_key, Rebalance()]


def test_forward_between_unequal_parallelism_is_refused(step: Step) -> None:
    with pytest.raises(
        ConfigError,
        match=r"forward from 'source-1' \(parallelism 2\) to 'map-1' \(parallelism 3\) needs equal.*rebalance\(\)",
    ):
        build(step("sink", step("map", step("source"), partition=Forward(), parallelism=3)))


def test_an_operators_parallelism_beats_the_programs(step: Step) -> None:
    graph = build(step("sink", step("source", parallelism=5)), parallelism=2)

    assert [node.parallelism for node in graph.nodes.values()] == [5, 2]


@pytest.mark.parametrize(
    ("own", "program", "written", "expected"),
    [
        (None, None, None, 128),
        (None, 256, None, 256),
        (512, 256, None, 512),
        (None, None, 64, 64),
        (64, 256, 64, 64),
    ],
    ids=["default", "program", "operator", "restored over default", "restored equals operator"],
)
def test_max_parallelism_comes_from_the_strongest_place(
    step: Step, own: int | None, program: int | None, written: int | None, expected: int
) -> None:
    restored = {OperatorUid("source-1"): written} if written else {}

    graph = build(
        step("sink", step("source", max_parallelism=own)), max_parallelism=program, restored=restored
    )

    assert graph.nodes[OperatorUid("source-1")].max_parallelism == expected


def test_another_max_parallelism_than_the_states_is_refused(step: Step) -> None:
    with pytest.raises(
        ConfigError,
        match="operator 'source-1': max parallelism is 256 but its state was written with 128; set it to 128",
    ):
        build(
            step("sink", step("source", max_parallelism=256)),
            restored={OperatorUid("source-1"): 128},
        )


def test_more_subtasks_than_key_groups_are_refused(step: Step) -> None:
    with pytest.raises(ConfigError, match="max parallelism"):
        build(step("sink", step("source", max_parallelism=4)), parallelism=5)
