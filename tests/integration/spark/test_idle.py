"""An unbounded source that has nothing to say costs one epoch per checkpoint interval, until somebody stops the job."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.storage import open_storage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import ListEnumerator, RangeSplit
from tidegate.connectors.collection import CollectSink
from tidegate.connectors.spi import NotYet, Source, SourceReader
from tidegate.ids import PipelineId, SplitId
from tidegate.runtime.graph.transformations import Input, Transformation
from tidegate.runtime.job import Program, Startup
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.driver import SparkDriver
from tidegate.runtime.status import RunStatus

INTERVAL_MS = 400

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def silent_source() -> Source[Any]:
    """One split that never has a record; defined here so that it travels by value."""

    class SilentReader(SourceReader[Any]):
        def __init__(self) -> None:
            self.splits: list[Any] = []

        def add_splits(self, splits: Any) -> None:
            self.splits += splits

        def no_more_splits(self) -> None:
            pass

        def poll(self, limit: int) -> NotYet:
            return NotYet()

        def snapshot(self, checkpoint: Any) -> list[Any]:
            return self.splits

    class Silent(Source[Any]):
        split_type = RangeSplit
        bounded = False

        def open_enumerator(self, context: Any, restored: bytes | None) -> ListEnumerator[RangeSplit]:
            return ListEnumerator(context, [RangeSplit(SplitId("all"), 0, None)], RangeSplit, restored)

        def open_reader(self, context: Any) -> SilentReader:
            return SilentReader()

    return Silent()


def test_an_idle_job_takes_a_checkpoint_per_interval_and_stops_when_told(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    source = Transformation(SOURCE, "silent", silent_source(), parallelism=1)
    sink = Transformation(SINK, "out", CollectSink(str(tmp_path / "out")), (Input(source),), parallelism=1)
    options = JobOptions(target="local[2]", interval_ms=INTERVAL_MS)
    program = Program("idle", PipelineId("idle"), (sink,), options, 1)
    startup = Startup(program, open_storage(str(tmp_path / "state")), SYSTEM_CLOCK, print)
    status = RunStatus(SYSTEM_CLOCK)

    def stop_after_three(status: RunStatus) -> None:
        if status.snapshot().settled >= 3:
            driver.stop()

    driver = SparkDriver(startup, SYSTEM_CLOCK, status, stop_after_three)

    result = driver.run()

    assert (result.state, result.records, result.checkpoint) == ("stopped", 0, 4)
    triggered = [event.at_ms for event in status.events if event.what == "triggered"]
    assert len(triggered) == 4
    assert all(later - earlier >= INTERVAL_MS for earlier, later in pairwise(triggered[:3]))
