"""The tasks of an epoch, run in this process: what settings and failures of state become of them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest

from tests.unit.runtime.checkpoint.full import Full
from tests.unit.runtime.spark.orders import epoch_order
from tidegate.backends.storage import MemoryStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.collection import CollectionSource, CollectSink
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import StateFormatError
from tidegate.ids import Branch, CheckpointId, PipelineId, Subtask
from tidegate.runtime.job import Program
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark import tasks
from tidegate.runtime.spark.messages import Order, Outcome
from tidegate.runtime.spark.readers import Readers
from tidegate.twophase.spi import WriterContext
from tidegate.types import Types


class Keeps(KeyedProcessFunction):
    """Keeps two thousand bytes."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.kept.update("x" * 2_000)
        yield value


def epoch(monkeypatch: pytest.MonkeyPatch, options: JobOptions) -> Outcome:
    """What one epoch of a program with state on the heap comes to."""
    monkeypatch.setattr(tasks, "_task_id", lambda: 7)
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
    env.from_source(CollectionSource([1])).key_by(lambda n: n).process(Keeps())
    graph = Program("swells", PipelineId("swells"), tuple(env._steps), options, parallelism=1).graph(None)
    with contextlib.closing(Readers(graph, None, SYSTEM_CLOCK, lambda uid, reason: None)) as readers:
        (read,) = readers.orders(100)
    order = epoch_order(graph, options)
    outcome, _ = tasks.conclude(order, 1, 0, (parcel for _, parcel in tasks.relay(order, 0, 0, [read])))
    return outcome


def test_a_task_bounds_its_state_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    within = epoch(monkeypatch, JobOptions(backend="heap"))
    beyond = epoch(
        monkeypatch, JobOptions(backend="heap", components={"state.backend.heap.max-state": 1_024})
    )

    assert within.result.error is None
    assert [report.keyed is not None for report in within.result.reports] == [True]
    with pytest.raises(StateFormatError, match=r"state 'kept' is too large .* expected at most 1024"):
        raise beyond.result.error or AssertionError("nothing was refused")


def drawn(order: Order, subtask: Subtask) -> tuple[float, float]:
    """What a task draws first, with Python and with numpy."""
    tasks.seed(order, subtask)
    return random.uniform(0, 1), float(numpy.random.random())


def test_chance_is_the_same_for_each_execution_of_a_subtask_in_an_epoch_and_for_nobody_else() -> None:
    one, two = Subtask("source", 0), Subtask("source", 1)
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
    env.from_source(CollectionSource([1])).print()
    graph = Program("draws", PipelineId("draws"), tuple(env._steps), JobOptions(), parallelism=1).graph(None)
    order = epoch_order(graph)
    others = [replace(order, checkpoint=CheckpointId(2)), replace(order, branch=Branch(1))]
    before, numpys = random.getstate(), numpy.random.get_state()
    try:
        found = [drawn(order, one), drawn(order, two), *(drawn(other, one) for other in others)]
        assert drawn(order, one) == found[0]
    finally:
        random.setstate(before)
        numpy.random.set_state(numpys)

    for values in zip(*found, strict=True):
        assert len(set(values)) == len(found)


@dataclass(frozen=True)
class Asked(CollectSink):
    """Notes what its writers are told."""

    told: ClassVar[list[int | None]] = []

    def open_writer(self, context: WriterContext) -> Any:
        self.told.append(context.exposed_ms)
        return super().open_writer(context)


def test_a_sink_is_told_how_long_what_it_prepares_may_have_to_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Asked, "told", [])
    monkeypatch.setattr(tasks, "_task_id", lambda: 7)
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
    env.from_source(CollectionSource([1])).sink_to(Asked(str(tmp_path)))
    options = JobOptions(interval_ms=7_000)
    graph = Program("asks", PipelineId("asks"), tuple(env._steps), options, parallelism=1).graph(None)
    with contextlib.closing(Readers(graph, None, SYSTEM_CLOCK, lambda uid, reason: None)) as readers:
        (outcome,) = tasks.conclude(epoch_order(graph, options), 0, 0, readers.orders(100))

    assert outcome.result.error is None
    assert Asked.told == [options.exposed_ms]


def test_an_execution_that_finds_no_storage_to_claim_its_names_on_declines_and_has_not_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Asked, "told", [])
    monkeypatch.setattr(tasks, "_task_id", lambda: 7)
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
    env.from_source(CollectionSource([1])).sink_to(Asked(str(tmp_path)))
    graph = Program("asks", PipelineId("asks"), tuple(env._steps), JobOptions(), parallelism=1).graph(None)
    storage = Full(MemoryStorage())
    order = epoch_order(graph, storage=storage)
    storage.full = {"create"}
    with contextlib.closing(Readers(graph, None, SYSTEM_CLOCK, lambda uid, reason: None)) as readers:
        (outcome,) = tasks.conclude(order, 0, 0, readers.orders(100))

    assert outcome.result.declined
    assert "no space left" in str(outcome.result.error)
    assert Asked.told == []
