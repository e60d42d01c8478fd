"""The tasks of a batch job, run in this process: what they hand to each other, and how much of it is in memory."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.runtime.spark.orders import epoch_order
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import ListEnumerator, RangeSplit
from tidegate.connectors.collection import CollectionSource, CollectSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, ListStateDescriptor, StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import CheckpointId, PipelineId, Subtask
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.job import Program
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark import tasks
from tidegate.runtime.spark.messages import Outcome, Parcel
from tidegate.runtime.spark.outbox import pieces
from tidegate.runtime.spark.readers import Readers
from tidegate.twophase.spi import SinkWriter, WriterContext

Env = StreamExecutionEnvironment


def batch_graph(env: Env, options: JobOptions) -> JobGraph:
    return Program("batch", PipelineId("batch"), tuple(env._steps), options, parallelism=1).graph(None)


def outcomes(env: Env, options: JobOptions, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What becomes of a batch job with one exchange and one subtask on either side of it."""
    monkeypatch.setattr(tasks, "_task_id", lambda: 7)
    graph = batch_graph(env, options)
    with contextlib.closing(Readers(graph, None, SYSTEM_CLOCK, lambda uid, reason: None)) as readers:
        (read,) = readers.orders(None)
    order = epoch_order(graph, options)
    found = list(tasks.conclude(order, 1, 0, (parcel for _, parcel in tasks.relay(order, 0, 0, [read]))))
    for outcome in found:
        if outcome.result.error is not None:
            raise outcome.result.error
    return found


def environment() -> Env:
    return Env.get_execution_environment({"parallelism.default": 1})


class Hoarding(KeyedProcessFunction):
    """Keeps every record of a key, which over all keys would be everything."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept"))

    def process_element(self, value: tuple[int, bytes], ctx: Any) -> Iterator[int]:
        self.kept.add(value)
        if len(self.kept.get()) == 4:
            yield value[0]


def test_memory_follows_the_sort_buffer_and_not_what_a_task_reads_receives_or_sends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count, size = 16_000, 1_500
    env = environment()
    source = GeneratorSource(lambda number: (number * 7919 % 4_000, bytes(size)), count, splits=100)
    whole = env.from_source(source).key_by(lambda pair: pair[0]).process(Hoarding())
    whole.sink_to(CollectSink(str(tmp_path)))
    options = JobOptions(mode="BATCH", sort_buffer_bytes=1024 * 1024)
    tracemalloc.start()
    try:
        behind, read = outcomes(env, options, monkeypatch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (read.result.records, behind.result.records) == (count, count)
    assert count * size == 24_000_000
    assert peak < 10_000_000


class Expiring(SinkWriter):
    """Prepares work that is dropped after an hour."""

    def write(self, batch: Batch) -> None:
        """Whatever it is."""

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int]:
        return b"", "a transaction", 1

    def expires_in_ms(self) -> int:
        return 3_600_000


@dataclass(frozen=True)
class ExpiringSink(CollectSink):
    def open_writer(self, context: WriterContext) -> Any:
        return Expiring()


def test_what_an_early_task_has_prepared_says_until_when_the_job_has_to_be_decided(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = environment()
    read = env.from_collection([1, 2])
    read.sink_to(ExpiringSink(str(tmp_path / "early")))
    read.key_by(lambda n: n).sum().sink_to(CollectSink(str(tmp_path / "late")))
    begun_ms = SYSTEM_CLOCK.now_ms()
    options = JobOptions(mode="BATCH", interval_ms=1_000)
    behind, early = outcomes(env, options, monkeypatch)

    assert behind.result.decide_by_ms == inf
    left_ms = early.result.decide_by_ms + options.commit_ms - begun_ms
    assert 3_600_000 - 1_000 <= left_ms <= 3_600_000 + SYSTEM_CLOCK.now_ms() - begun_ms


def test_all_splits_are_dealt_before_a_batch_job_reads() -> None:
    env = environment()
    env.from_source(GeneratorSource(str, 100, splits=7)).set_parallelism(2).print()
    with contextlib.closing(
        Readers(batch_graph(env, JobOptions(mode="BATCH")), None, SYSTEM_CLOCK, lambda uid, reason: None)
    ) as readers:
        orders = readers.orders(None)

    assert sorted(len(order.splits) for order in orders) == [3, 4]
    assert all(order.complete and order.limit is None for order in orders)


class Silent(ListEnumerator[Any]):
    def request(self, reader: int) -> None:
        """Answers nothing."""


class SilentSource(CollectionSource):
    def open_enumerator(self, context: Any, restored: bytes | None) -> Any:
        return Silent(context, [], RangeSplit, restored)


def test_a_source_that_does_not_give_all_its_splits_is_refused_with_the_ways_out() -> None:
    env = environment()
    env.from_source(SilentSource([1])).uid("silent").print()
    graph = batch_graph(env, JobOptions(mode="BATCH"))
    with (
        contextlib.closing(Readers(graph, None, SYSTEM_CLOCK, lambda uid, reason: None)) as readers,
        pytest.raises(
            ConfigError, match=r"source 'silent': its enumerator neither .* STREAMING, or .* embedded"
        ),
    ):
        readers.orders(None)


FRAMES = st.lists(st.binary(max_size=6), max_size=8)


@settings(max_examples=60, deadline=None)
@given(sent=st.lists(FRAMES, min_size=1, max_size=4), most=st.integers(1, 12), data=st.data())
def test_pieces_that_arrive_in_any_order_are_what_was_sent(
    sent: list[list[bytes]], most: int, data: st.DataObject
) -> None:
    one = Subtask("totals", 0)
    parcels = [
        Parcel(sender, 7 + sender, number, tuple((to, tuple(found)) for to, found in piece.items()), last)
        for sender, frames in enumerate(sent)
        for number, (piece, last) in enumerate(pieces({one: frames}, most))
    ]
    delivered = data.draw(st.permutations(parcels))
    received: list[list[bytes]] = [[] for _ in sent]
    for parcel in tasks.in_order(delivered, senders=len(sent)):
        for _, frames in parcel.frames:
            received[parcel.sender] += frames

    assert received == sent
    missing = data.draw(st.integers(0, len(parcels) - 1))
    with pytest.raises(UnavailableError, match="spark repeats the task"):
        list(tasks.in_order(parcels[:missing] + parcels[missing + 1 :], senders=len(sent)))


def test_pieces_of_two_executions_are_never_put_together() -> None:
    first, other = Parcel(0, 7, 0, ()), Parcel(0, 8, 1, (), last=True)

    with pytest.raises(UnavailableError, match="parts of two executions of task 0"):
        list(tasks.in_order([first, other], senders=1))
