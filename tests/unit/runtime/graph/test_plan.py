"""Plans as JSON, of programs as people write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.common import Duration
from tidegate.datastream import DataStream, OutputTag, ProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.window import TumblingProcessingTimeWindows
from tidegate.errors import ConfigError


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    return environment.set_parallelism(8)


def nodes(env: StreamExecutionEnvironment) -> list[dict[str, Any]]:
    plan = json.loads(env.get_execution_plan())
    assert list(plan) == ["nodes"]
    found: list[dict[str, Any]] = plan["nodes"]
    return found


def shipped(env: StreamExecutionEnvironment) -> dict[int, list[tuple[int, str]]]:
    return {
        node["id"]: [(each["id"], each["ship_strategy"]) for each in node.get("predecessors", ())]
        for node in nodes(env)
    }


@pytest.mark.spec("000/EX-02")
def test_the_plan_of_the_socket_word_count_is_the_known_one(env: StreamExecutionEnvironment) -> None:
    words = env.socket_text_stream("localhost", 9000).flat_map(lambda line: [(w, 1) for w in line.split()])
    windows = words.key_by(lambda pair: pair[0]).window(
        TumblingProcessingTimeWindows.of(Duration.of_seconds(5))
    )
    counts = windows.reduce(lambda one, two: (one[0], one[1] + two[1]))
    counts.print().set_parallelism(1)

    def node(number: int, name: str, pact: str, parallelism: int, *before: tuple[int, str]) -> dict[str, Any]:
        found = {"id": number, "type": name, "pact": pact, "contents": name, "parallelism": parallelism}
        inputs = [{"id": each, "ship_strategy": how, "side": "second"} for each, how in before]
        return {**found, "predecessors": inputs} if inputs else found

    window = (
        "Window(TumblingProcessingTimeWindows(5000), ProcessingTimeTrigger, "
        "ReduceFunction$1, PassThroughWindowFunction)"
    )
    expected = {
        "nodes": [
            node(1, "Source: Socket Stream", "Data Source", 1),
            node(2, "Flat Map", "Operator", 8, (1, "REBALANCE")),
            node(4, window, "Operator", 8, (2, "HASH")),
            node(5, "Sink: Print to Std. Out", "Data Sink", 1, (4, "REBALANCE")),
        ]
    }
    assert env.get_execution_plan() == json.dumps(expected, indent=2)


@pytest.mark.spec("000/EX-03")
def test_a_shuffle_is_only_a_property_of_the_edge(env: StreamExecutionEnvironment) -> None:
    lines = env.socket_text_stream("localhost", 9000)
    lines.flat_map(str.split).shuffle().filter(lambda word: "hello" in word).print()

    assert [node["type"] for node in nodes(env)] == [
        "Source: Socket Stream",
        "Flat Map",
        "Filter",
        "Sink: Print to Std. Out",
    ]
    assert shipped(env) == {1: [], 2: [(1, "REBALANCE")], 4: [(2, "SHUFFLE")], 5: [(4, "FORWARD")]}


@pytest.mark.spec("000/PLAN-03", "000/PLAN-05")
def test_keys_of_a_node_stand_in_order_and_sources_have_no_predecessors(
    env: StreamExecutionEnvironment,
) -> None:
    env.from_parallel_collection([1]).print()

    source, sink = nodes(env)
    assert list(source) == ["id", "type", "pact", "contents", "parallelism"]
    assert list(sink) == ["id", "type", "pact", "contents", "parallelism", "predecessors"]
    assert list(sink["predecessors"][0].items()) == [
        ("id", 1),
        ("ship_strategy", "FORWARD"),
        ("side", "second"),
    ]
    assert [node["type"] for node in (source, sink)] == [node["contents"] for node in (source, sink)]
    assert [node["pact"] for node in (source, sink)] == ["Data Source", "Data Sink"]


@pytest.mark.spec("000/PLAN-06", "004/PRT-009")
@pytest.mark.parametrize(
    ("deal", "strategy"),
    [
        (DataStream.global_, "GLOBAL"),
        (DataStream.forward, "FORWARD"),
        (DataStream.shuffle, "SHUFFLE"),
        (DataStream.rebalance, "REBALANCE"),
        (DataStream.rescale, "RESCALE"),
        (DataStream.broadcast, "BROADCAST"),
        (lambda stream: stream.key_by(abs), "HASH"),
        (lambda stream: stream.partition_custom(max, abs), "CUSTOM"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_of_the_eight_ways_to_deal_has_its_name_and_a_number(
    env: StreamExecutionEnvironment, deal: Callable[[DataStream], DataStream], strategy: str
) -> None:
    deal(env.from_parallel_collection([1])).map(str).print()

    assert shipped(env) == {1: [], 3: [(1, strategy)], 4: [(3, "FORWARD")]}


def test_two_steps_behind_one_key_share_its_number(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_parallel_collection([1]).key_by(lambda value: value)
    keyed.sum().print()
    keyed.max().print()

    assert shipped(env) == {
        1: [],
        3: [(1, "HASH")],
        5: [(1, "HASH")],
        4: [(3, "FORWARD")],
        6: [(5, "FORWARD")],
    }


def test_unions_and_side_outputs_are_no_nodes(env: StreamExecutionEnvironment) -> None:
    step = env.from_parallel_collection([1]).process(Split())
    late = step.get_side_output(OutputTag("late"))
    step.union(late, env.from_parallel_collection([2])).map(str).print()

    types = {node["id"]: node["type"] for node in nodes(env)}
    merged = next(number for number, name in types.items() if name == "Map")
    assert sorted(types.values()) == [
        "Map",
        "Process",
        "Sink: Print to Std. Out",
        "Source: Collection Source",
        "Source: Collection Source",
    ]
    assert [types[number] for number, _ in shipped(env)[merged]] == [
        "Process",
        "Process",
        "Source: Collection Source",
    ]


def test_names_people_give_are_shown(env: StreamExecutionEnvironment) -> None:
    env.from_parallel_collection([1]).name("numbers").map(str).name("as text").print().name("screen")

    assert [node["type"] for node in nodes(env)] == ["Source: numbers", "as text", "Sink: screen"]


def test_showing_the_plan_leaves_the_program_as_it_is(env: StreamExecutionEnvironment) -> None:
    env.from_parallel_collection([1]).print()

    assert env.get_execution_plan() == env.get_execution_plan()


def test_a_program_without_a_sink_has_no_plan(env: StreamExecutionEnvironment) -> None:
    env.from_parallel_collection([1])

    with pytest.raises(ConfigError, match="the program has no sink"):
        env.get_execution_plan()
