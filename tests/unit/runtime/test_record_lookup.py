"""Records are read again by their origin, from where a checkpoint ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.connectors.base import RangeSplit
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.files import TextFileSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import Source
from tidegate.elements import RecordOrigin
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, SplitId
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.job import Program
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions
from tidegate.runtime.record_lookup import find_records


def graph(source: Source[Any], parallelism: int = 2) -> JobGraph:
    step = Transformation(SOURCE, "numbers", source, uid="numbers")
    return Program("job", PipelineId("job"), (step,), JobOptions(), parallelism).graph(None)


def origin(split: str, position: int, source: str = "numbers") -> RecordOrigin:
    return RecordOrigin(source, split, position)


def test_records_of_several_splits_are_found_from_the_start() -> None:
    wanted = [origin("0-3", 1), origin("3-6", 4)]

    found = find_records(graph(CollectionSource(["a", "b", "c", "d", "e", "f"])), None, wanted, SYSTEM_CLOCK)

    assert found == {wanted[0]: "b", wanted[1]: "e"}


def test_lines_are_found_by_the_byte_they_begin_at(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    job = graph(TextFileSource(str(tmp_path / "lines.txt")), 1)
    split = next(iter(_splits_of(job)))

    assert find_records(job, None, [origin(split, 4)], SYSTEM_CLOCK) == {origin(split, 4): "two"}


def test_what_lies_before_the_checkpoint_is_not_read() -> None:
    asked: list[int] = []

    def make(number: int) -> int:
        asked.append(number)
        return number * 10

    split = msgspec.msgpack.encode(RangeSplit(SplitId("0/1"), 90, 100))
    state = OperatorState(OperatorUid("numbers"), "numbers", 1, 128, splits=(split,))
    before = Manifest(
        PipelineId("job"), LineageId("l"), Branch(0), RunId("r"), CheckpointId(1), None, 0, (state,), ()
    )

    found = find_records(graph(GeneratorSource(make, 100), 1), before, [origin("0/1", 95)], SYSTEM_CLOCK)

    assert found == {origin("0/1", 95): 950}
    assert min(asked) == 90


def test_what_no_source_has_is_left_out() -> None:
    job = graph(CollectionSource(["a", "b"]))
    gone = [origin("9/9", 0), origin("0-1", 77), origin("0-1", 0, "other")]

    assert find_records(job, None, [*gone, origin("0-1", 0)], SYSTEM_CLOCK) == {origin("0-1", 0): "a"}


def _splits_of(job: JobGraph) -> list[str]:
    from tidegate.runtime.enumerators import open_enumerator

    found: list[str] = []

    def assign(vertex: Any, reader: int, splits: tuple[bytes, ...] | None) -> None:
        found.extend(msgspec.msgpack.decode(split)["id"] for split in splits or ())

    (vertex,) = (vertex for vertex in job.vertices.values() if vertex.is_source)
    enumerator = open_enumerator(vertex, None, assign)
    enumerator.request(0)
    return found


def test_a_source_is_waited_for_while_it_says_when_it_goes_on_and_not_for_ever() -> None:
    clock = ManualClock()
    slow = graph(GeneratorSource(int, 100, rate_per_second=1), 1)

    assert find_records(slow, None, [origin("0/1", 3)], clock) == {origin("0/1", 3): 3}
    assert clock.monotonic() >= 3

    stuck = graph(GeneratorSource(int, 100, rate_per_second=0.01), 1)
    assert find_records(stuck, None, [origin("0/1", 3)], clock) == {}
