"""The lease stays alive while the driver is busy."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tidegate.backends.storage import LocalStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import FencedError
from tidegate.ids import LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.spark.lease import renewing

DEADLINE_S = 20


class Watched(Pipeline):
    """A pipeline that tells when it was renewed, or that it could not be."""

    def __init__(self, root: Path, run: str) -> None:
        super().__init__(LocalStorage(root), PipelineId("orders"), RunId(run), SYSTEM_CLOCK)
        self.renewed = threading.Semaphore(0)
        self.fenced = threading.Event()

    def renew(self) -> None:
        try:
            super().renew()
        except FencedError:
            self.fenced.set()
            raise
        self.renewed.release()


@pytest.fixture
def pipeline(tmp_path: Path) -> Watched:
    pipeline = Watched(tmp_path, "mine")
    pipeline.acquire(lambda: LineageId("lineage"), fresh=False, say=print)
    return pipeline


def test_the_lease_is_renewed_again_and_again_until_the_end(pipeline: Watched) -> None:
    with renewing(pipeline, every_s=0.001):
        assert all(pipeline.renewed.acquire(timeout=DEADLINE_S) for _ in range(3))
    renewals = pipeline.record.renewals

    assert renewals >= 3
    assert not [thread for thread in threading.enumerate() if thread.name == "tidegate-lease"]


def test_who_lost_the_lease_renews_no_more(pipeline: Watched, tmp_path: Path) -> None:
    other = Pipeline(LocalStorage(tmp_path), pipeline.id, RunId("mine"), SYSTEM_CLOCK)
    other.acquire(lambda: LineageId("lineage"), fresh=False, say=print)

    with renewing(pipeline, every_s=0.001):
        assert pipeline.fenced.wait(DEADLINE_S)

    with pytest.raises(FencedError, match="is now owned by run"):
        pipeline.renew()
