from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, Rebalance, Transformation
from tidegate.runtime.task.exchange import channels_into, channels_out_of

Step = Callable[..., Transformation]


@pytest.fixture(scope="module")
def graph_of(step: Step) -> Callable[[int, int, int], JobGraph]:
    """Two sources united, dealt to a keyed step, dealt on to a sink, each with a parallelism of its own."""

    def build(reading: int, keyed: int, writing: int) -> JobGraph:
        left, right = (step("source", name=name, parallelism=reading) for name in ("left", "right"))
        united = step("map", left, right, name="union", parallelism=reading)
        counted = step("process", united, partition=Hash(abs), parallelism=keyed)
        return build_job_graph(
            build_stream_graph(
                [step("sink", counted, partition=Rebalance(), parallelism=writing)], parallelism=1
            )
        )

    return build


SMALL = st.integers(1, 4)


@given(reading=SMALL, keyed=SMALL, writing=SMALL)
def test_every_channel_has_exactly_one_sender_and_one_receiver(
    graph_of: Callable[[int, int, int], JobGraph], reading: int, keyed: int, writing: int
) -> None:
    graph = graph_of(reading, keyed, writing)
    out = [
        channel
        for subtask in graph.subtasks
        for channels in channels_out_of(graph.vertices[subtask.vertex], subtask.index).values()
        for channel in channels
    ]
    into = [
        channel
        for subtask in graph.subtasks
        for channel in channels_into(graph.vertices[subtask.vertex], subtask.index)
    ]

    assert len(set(out)) == len(out)
    assert sorted(out) == sorted(into)


@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda stream, lock: stream.map(lambda value: (lock, value)).name("locked").uid("l"),
            r"operator 'locked' \(uid 'l'\) cannot be sent to another process: TypeError.*lock.*"
            r"in open\(\) instead of capturing them",
        ),
        (
            lambda stream, lock: stream.key_by(lambda value: id(lock)).map(str),
            "the key selector behind operator 'collection-1' cannot be sent to another process: TypeError",
        ),
    ],
    ids=["function", "key selector"],
)
def test_what_cannot_travel_is_refused_by_the_operators_name(
    build: Callable[[Any, Any], Any], message: str, target: str
) -> None:
    lock = threading.Lock()
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, "pipeline.progress": "off"}
    )

    with pytest.raises(ConfigError, match=message):
        list(build(env.from_parallel_collection([1, 2]), lock).execute_and_collect())
