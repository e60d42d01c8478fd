"""State that its backend cannot hold: checkpoints are declined by name, and the job goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.types import Types

COUNT = 100
TOO_LARGE = r"state 'kept' is too large for its backend; got 2\d\d\d bytes; expected at most 1024; raise state.backend"


class Swells(KeyedProcessFunction):
    """Keeps too much from the first record on, and lets go of it with record `until`."""

    def __init__(self, until: int) -> None:
        self.until = until

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.kept.update("x" * 2_000 if value < self.until else "y")
        yield value


@pytest.fixture
def bounded(anywhere: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
    """On the heap, with a limit of a kilobyte."""
    anywhere.configure(
        {
            "pipeline.progress": "plain",
            "state.backend.type": "heap",
            "state.backend.heap.max-state": "1 kb",
            "execution.checkpointing.interval": "20 ms",
        }
    )
    return anywhere


def test_a_checkpoint_of_too_large_a_state_is_declined_and_the_job_goes_on(
    bounded: StreamExecutionEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    numbers = bounded.from_source(GeneratorSource(lambda n: n, count=COUNT, splits=1, rate_per_second=200.0))
    swollen = numbers.key_by(lambda n: 0).process(Swells(until=COUNT - 1))

    assert sorted(swollen.execute_and_collect()) == list(range(COUNT))

    told = capfd.readouterr().err
    assert "restart" not in told
    assert re.search(rf"aborted: checkpoint \d+: {TOO_LARGE}", told)
