"""What the timeline says while checkpoints come and go."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import LocalStorage, MemoryStorage
from tidegate.clock import ManualClock
from tidegate.errors import ConfigError, StateCorruptError
from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, metadata_name
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import Record
from tidegate.runtime.checkpoint.timeline import Timeline, pipelines

RUN = RunId("run-1")
ONE, TWO = Retained(RUN, CheckpointId(1)), Retained(RUN, CheckpointId(2))


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    """Two empty checkpoints of a pipeline."""
    storage = LocalStorage(tmp_path) if request.param == "local" else MemoryStorage()
    pipeline = Pipeline(storage, PipelineId("orders"), RUN, ManualClock())
    pipeline.acquire(lambda: LineageId("lineage1"), fresh=False, say=print)
    for checkpoint in (ONE.checkpoint, TWO.checkpoint):
        lineage = pipeline.record.lineage
        pipeline.archive.write(Manifest(pipeline.id, lineage, Branch(0), RUN, checkpoint, None, 0, (), ()))
        pipeline.decide(checkpoint)
    return storage


def drop(storage: CheckpointStorage, *, told: bool) -> None:
    """Remove the first checkpoint, as retention does; the record is `told` of it first, or never."""
    assert storage.decisions is not None
    decision = storage.decisions.read("orders/latest")
    assert decision is not None
    record = msgspec.msgpack.decode(decision.data, type=Record)
    if told:
        left = msgspec.msgpack.encode(msgspec.structs.replace(record, retained=(TWO,)))
        assert storage.decisions.swap("orders/latest", decision.tag, left)
    storage.blobs.delete([metadata_name(RUN, ONE.checkpoint)])


def test_pipelines_are_found_by_their_checkpoints(storage: CheckpointStorage) -> None:
    assert list(pipelines(storage)) == ["orders"]
    with Timeline(storage, "orders") as timeline:
        assert [moment.checkpoint for moment in timeline.moments()] == [1, 2]
        assert timeline.manifest().checkpoint == 2


def test_a_checkpoint_that_goes_while_it_is_looked_at_is_told_as_such(storage: CheckpointStorage) -> None:
    with Timeline(storage, "orders") as timeline:
        drop(storage, told=True)

        with pytest.raises(
            ConfigError, match="checkpoint 1 of pipeline 'orders' is not retained; retained are 2"
        ):
            timeline.manifest(1)
        assert timeline.manifest(2).checkpoint == 2


def test_one_that_should_be_there_is_damaged(storage: CheckpointStorage) -> None:
    with Timeline(storage, "orders") as timeline:
        drop(storage, told=False)

        with pytest.raises(StateCorruptError, match="chk-1/_metadata"):
            timeline.manifest(1)
        assert [moment.damage is None for moment in timeline.moments()] == [False, True]


def test_a_pipeline_without_checkpoints_has_none_to_show(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    pipeline = Pipeline(storage, PipelineId("orders"), RUN, ManualClock())
    pipeline.acquire(lambda: LineageId("lineage1"), fresh=False, say=print)

    with Timeline(storage, "orders") as timeline:
        assert timeline.moments() == []
        with pytest.raises(ConfigError, match="pipeline 'orders' has no checkpoint"):
            timeline.manifest()
    with pytest.raises(ConfigError, match="has no pipeline 'bills'; known are none"):
        Timeline(storage, "bills")
