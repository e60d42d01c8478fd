"""The lease is renewed whatever its owner does, and whoever asked is told how it is."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import until
from tidegate.backends.spi import Decision, Decisions
from tidegate.backends.storage import LocalStorage
from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.errors import FencedError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.lease import LeaseKeeper
from tidegate.runtime.checkpoint.pipeline import Pipeline

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
    with LeaseKeeper(pipeline, every_s=0.001):
        assert all(pipeline.renewed.acquire(timeout=DEADLINE_S) for _ in range(3))
    renewals = pipeline.record.renewals

    assert renewals >= 3
    assert not [thread for thread in threading.enumerate() if thread.name == "tidegate-lease"]


def test_who_lost_the_lease_renews_no_more(pipeline: Watched, tmp_path: Path) -> None:
    other = Pipeline(LocalStorage(tmp_path), pipeline.id, RunId("mine"), SYSTEM_CLOCK)
    other.acquire(lambda: LineageId("lineage"), fresh=False, say=print)

    with LeaseKeeper(pipeline, every_s=0.001):
        assert pipeline.fenced.wait(DEADLINE_S)

    with pytest.raises(FencedError, match="is now owned by run"):
        pipeline.renew()


def taken_over(root: Path, pipeline: PipelineId) -> bool:
    """Whether another run could take the pipeline, which is renewed all the time."""
    other = Pipeline(LocalStorage(root), pipeline, RunId("mine"), SYSTEM_CLOCK)
    with suppress(FencedError):
        other.acquire(lambda: LineageId("lineage"), fresh=False, say=print)
    return other.acquired


def test_who_listens_is_told_of_each_renewal_and_why_the_lease_was_lost(
    pipeline: Watched, tmp_path: Path
) -> None:
    said: list[TidegateError | None] = []
    keeper = LeaseKeeper(pipeline, every_s=0.001)
    with keeper, keeper.told_to(said.append):
        until(lambda: len(said) >= 3)
        assert said[:3] == [None] * 3
        until(lambda: taken_over(tmp_path, pipeline.id))
        until(lambda: isinstance(said[-1], FencedError))
        told = len(said)
    with keeper.told_to(said.append):
        assert isinstance(said[told], FencedError)


def test_the_lease_holds_from_before_the_swap_that_renewed_it(tmp_path: Path) -> None:
    clock = ManualClock()
    pipeline = Pipeline(LocalStorage(tmp_path), PipelineId("orders"), RunId("run"), clock, lease_ms=5_000)
    pipeline.acquire(lambda: LineageId("lineage"), fresh=False, say=print)
    assert pipeline.valid_until == 5.0
    clock.advance(2_000)
    pipeline.decide(CheckpointId(1))
    assert pipeline.valid_until == 7.0


class Forgetful(Decisions):
    """Decisions whose next swap happens and is not answered, once that is asked for."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self.loses = False
        self._silent = False

    def create(self, name: str, data: bytes) -> bool:
        return self._decisions.create(name, data)

    def swap(self, name: str, tag: str | None, data: bytes) -> bool:
        self._silent, self.loses = self.loses, False
        return self._decisions.swap(name, tag, data)

    def read(self, name: str) -> Decision | None:
        if self._silent:
            self._silent = False
            raise UnavailableError("no answer")
        return self._decisions.read(name)


def test_a_renewal_whose_answer_was_lost_ends_nothing(tmp_path: Path) -> None:
    pipeline = Pipeline(LocalStorage(tmp_path), PipelineId("orders"), RunId("run"), ManualClock())
    pipeline.acquire(lambda: LineageId("lineage"), fresh=False, say=print)
    decisions = Forgetful(pipeline._decisions)
    pipeline._decisions = decisions
    decisions.loses = True
    with pytest.raises(UnavailableError, match="no answer"):
        pipeline.renew()

    pipeline.renew()
    pipeline.decide(CheckpointId(1))

    assert pipeline.record.renewals == 2
    assert [known.checkpoint for known in pipeline.record.retained] == [1]
