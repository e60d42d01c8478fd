"""Which programs fit into one Spark job per epoch."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.connectors.collection import CollectionSource, CollectSink
from tidegate.datastream import KeyedProcessFunction
from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, Input, Rebalance, Transformation
from tidegate.runtime.spark.shape import shape_of
from tidegate.runtime.stream.watermarks import WatermarkStrategy


def source(uid: str = "in") -> Transformation:
    return Transformation("source", uid, CollectionSource([1, 2]), uid=uid)


def step(*inputs: Input, uid: str) -> Transformation:
    return Transformation("map", uid, abs, inputs, uid=uid)


def graph(*ends: Transformation) -> JobGraph:
    sinks = [
        Transformation(
            "sink",
            "out",
            CollectSink("/tmp"),
            (Input(end),),
            uid=f"out-{number}",
            parallelism=end.parallelism,
        )
        for number, end in enumerate(ends)
    ]
    return build_job_graph(build_stream_graph(sinks, parallelism=2))


def test_a_program_without_an_exchange_has_sources_alone() -> None:
    shape = shape_of(graph(step(Input(source()), uid="absolute")))

    assert shape.sources == (Subtask("in", 0), Subtask("in", 1))
    assert shape.targets == ()


def test_every_subtask_behind_the_exchange_has_a_partition_of_its_own() -> None:
    read = source()
    keyed = step(Input(read, Hash(abs)), uid="keyed")
    keyed.parallelism = 3
    other = step(Input(read, Rebalance()), uid="dealt")

    shape = shape_of(graph(keyed, other))

    partitions = {shape.partition("keyed", index) for index in range(3)}
    partitions |= {shape.partition("dealt", index) for index in range(2)}
    assert partitions == set(range(5))


def test_several_sources_meet_behind_one_exchange() -> None:
    merged = step(Input(source("left")), Input(source("right")), uid="merged")

    shape = shape_of(graph(merged))

    assert {subtask.vertex for subtask in shape.sources} == {"left", "right"}
    assert {subtask.vertex for subtask in shape.targets} == {"merged"}


def test_a_second_exchange_in_a_row_is_refused_by_name() -> None:
    first = step(Input(source(), Hash(abs)), uid="first")
    second = step(Input(first, Hash(abs)), uid="second")

    with pytest.raises(
        ConfigError,
        match=r"operator 'second' \(uid 'second'\) stands behind a second exchange, after 'first'; "
        r"on Spark an epoch has one .* set execution.target to embedded",
    ):
        shape_of(graph(second))


def test_a_source_that_makes_watermarks_is_refused_by_name() -> None:
    read = source()
    read.watermarks = WatermarkStrategy.for_monotonous_timestamps()

    with pytest.raises(ConfigError, match=r"operator 'in' \(uid 'in'\) makes watermarks"):
        shape_of(graph(read))


def test_a_batch_job_is_refused_with_the_ways_out() -> None:
    job = build_job_graph(
        build_stream_graph([step(Input(source()), uid="absolute")], parallelism=1, mode="AUTOMATIC")
    )

    with pytest.raises(
        ConfigError,
        match=r"runtime mode BATCH is not available on Spark; .*execution.runtime-mode to STREAMING.*to embedded",
    ):
        shape_of(job)


class Waits(KeyedProcessFunction):
    async def process_element(self, value: int, ctx: Any) -> list[int]:
        return [value]


def test_a_function_that_is_awaited_does_not_fit_into_an_epoch() -> None:
    waits = Transformation("process", "waits", Waits(), (Input(source(), Hash(abs)),), uid="waits")
    with pytest.raises(
        ConfigError, match=r"'waits' \(uid 'waits'\) waits for requests, which an epoch on Spark"
    ):
        shape_of(graph(waits))
