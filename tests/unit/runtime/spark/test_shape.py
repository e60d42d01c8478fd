"""Which programs fit into one Spark job per epoch."""

from __future__ import annotations

import pytest

from tidegate.connectors.collection import CollectionSource, CollectSink
from tidegate.connectors.socket import SocketTextSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, Input, Rebalance, Transformation
from tidegate.runtime.operators.functions import MAP
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.spark.shape import shape_of


def source(uid: str = "in") -> Transformation:
    return Transformation(SOURCE, uid, CollectionSource([1, 2]), uid=uid)


def step(*inputs: Input, uid: str) -> Transformation:
    return Transformation(MAP, uid, abs, inputs, uid=uid)


def graph(*ends: Transformation) -> JobGraph:
    sinks = [
        Transformation(
            SINK,
            "out",
            CollectSink("/tmp"),
            (Input(end),),
            uid=f"out-{number}",
            parallelism=end.parallelism,
        )
        for number, end in enumerate(ends)
    ]
    return build_job_graph(build_stream_graph(sinks, parallelism=2))


def test_a_program_without_an_exchange_has_one_level() -> None:
    shape = shape_of(graph(step(Input(source()), uid="absolute")))

    assert shape.levels == ((Subtask("in", 0), Subtask("in", 1)),)


def test_every_subtask_of_a_level_has_a_partition_of_its_own() -> None:
    read = source()
    keyed = step(Input(read, Hash(abs)), uid="keyed")
    keyed.parallelism = 3
    other = step(Input(read, Rebalance()), uid="dealt")

    sources, behind = shape_of(graph(keyed, other)).levels

    assert sources == (Subtask("in", 0), Subtask("in", 1))
    assert sorted(behind) == [Subtask("dealt", n) for n in range(2)] + [Subtask("keyed", n) for n in range(3)]


def test_several_sources_meet_behind_one_exchange() -> None:
    merged = step(Input(source("left")), Input(source("right")), uid="merged")

    shape = shape_of(graph(merged))

    assert {subtask.vertex for subtask in shape.sources} == {"left", "right"}
    assert {subtask.vertex for subtask in shape.levels[1]} == {"merged"}


def test_an_operator_is_behind_the_last_of_its_inputs() -> None:
    left, right = source("left"), source("right")
    first = step(Input(left, Hash(abs)), uid="first")
    both = step(Input(first, Hash(abs)), Input(right, Hash(abs)), uid="both")

    shape = shape_of(graph(both))

    assert [{subtask.vertex for subtask in level} for level in shape.levels] == [
        {"left", "right"},
        {"first"},
        {"both"},
    ]


def test_a_batch_job_has_a_level_for_each_blocking_exchange_in_a_row() -> None:
    read = source()
    first = step(Input(read, Hash(abs)), uid="first")
    second = step(Input(first, Rebalance()), uid="second")
    job = build_job_graph(build_stream_graph([second], parallelism=1, mode="AUTOMATIC"))

    assert job.batch
    assert [{subtask.vertex for subtask in level} for level in shape_of(job).levels] == [
        {"in"},
        {"first"},
        {"second"},
    ]


def test_a_source_that_must_stay_open_is_refused_by_name() -> None:
    line = Transformation(SOURCE, "lines", SocketTextSource("localhost", 9), uid="lines", parallelism=1)

    with pytest.raises(
        ConfigError,
        match=r"source 'lines' \(uid 'lines'\) must stay open between checkpoints.* to embedded",
    ):
        shape_of(graph(line))


def test_an_iteration_is_refused_by_name() -> None:
    env = StreamExecutionEnvironment.on_spark("local[1]", {"pipeline.progress": "off"})
    with pytest.warns(DeprecationWarning, match="iterate"):
        iteration = env.from_parallel_collection([1]).iterate(1)
    iteration.close_with(iteration.filter(bool)).print()

    with pytest.raises(ConfigError, match=r"iteration '.*' is not available on Spark, where records cannot"):
        env.execute("rounds")
