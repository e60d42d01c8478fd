"""Standing by: the owner is watched by what it writes, and replaced when it writes nothing any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.errors import FencedError
from tidegate.ids import LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import Status

ORDERS = PipelineId("orders")


class Eventful(ManualClock):
    """A clock on which something happens at its moments, by milliseconds."""

    def __init__(self, events: dict[int, Callable[[], Any]]) -> None:
        super().__init__()
        self.events = events

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for moment in [moment for moment in self.events if moment <= self.now_ms()]:
            self.events.pop(moment)()


@pytest.fixture
def storage() -> CheckpointStorage:
    return MemoryStorage()


@pytest.fixture
def owner(storage: CheckpointStorage) -> Pipeline:
    """A live process, this one, that owns the pipeline."""
    first = Pipeline(storage, ORDERS, RunId("first"), ManualClock())
    acquire(first)
    return first


def acquire(pipeline: Pipeline) -> None:
    pipeline.acquire(lambda: LineageId("lineage"), fresh=False, say=print)


def second(storage: CheckpointStorage, clock: ManualClock, run: str = "second") -> Pipeline:
    return Pipeline(storage, ORDERS, RunId(run), clock)


def test_who_stands_by_for_nobody_starts_at_once(storage: CheckpointStorage) -> None:
    clock = ManualClock()

    assert second(storage, clock).acquirer.stand_by(print) is None
    assert clock.now_ms() == 0


def test_a_live_owner_that_renews_its_lease_is_waited_for_and_then_replaced(
    storage: CheckpointStorage, owner: Pipeline
) -> None:
    said: list[str] = []
    clock = Eventful(dict.fromkeys((3000, 6000, 9000, 12000), owner.renew))
    standby = second(storage, clock)

    assert standby.acquirer.stand_by(said.append) is None
    assert clock.now_ms() == 22_000
    acquire(standby)

    assert clock.now_ms() == 22_000, "it waited again"
    assert standby.record.lease.term == owner.record.lease.term + 1
    assert len(said) == 1
    assert said[0].startswith("standing by for run first of pid ")
    with pytest.raises(FencedError, match="is now owned by run second"):
        owner.renew()


@pytest.mark.parametrize("status", ["finished", "stopped", "canceled", "failed"])
def test_an_owner_that_ends_by_itself_ends_the_wait(
    storage: CheckpointStorage, owner: Pipeline, status: Status
) -> None:
    clock = Eventful({2_000: lambda: owner.leave(status)})

    ended = second(storage, clock).acquirer.stand_by(print)

    assert ended is not None
    assert (ended.status, ended.lease.run) == (status, "first")
    assert clock.now_ms() == 2_000


def test_an_owner_that_ended_before_is_not_waited_for(storage: CheckpointStorage, owner: Pipeline) -> None:
    owner.leave("finished")

    assert second(storage, ManualClock()).acquirer.stand_by(print) is None


def test_of_two_that_stand_by_one_goes_on_and_the_other_stands_by_for_it(
    storage: CheckpointStorage, owner: Pipeline
) -> None:
    said: list[str] = []
    quick = second(storage, ManualClock(), "quick")
    clock = Eventful({})
    slow = second(storage, clock, "slow")
    assert quick.acquirer.stand_by(print) is None
    assert slow.acquirer.stand_by(print) is None
    acquire(quick)

    with pytest.raises(FencedError, match="is now owned by run quick"):
        acquire(slow)
    assert not slow.acquired
    clock.events = {clock.now_ms() + 2_000: lambda: quick.leave("stopped")}
    ended = slow.acquirer.stand_by(said.append)

    assert ended is not None
    assert ended.lease.run == "quick"
    assert "standing by for run quick" in said[0]


def test_the_lease_can_be_shorter(storage: CheckpointStorage, owner: Pipeline) -> None:
    clock = ManualClock()

    assert Pipeline(storage, ORDERS, RunId("second"), clock, lease_ms=1_500).acquirer.stand_by(print) is None
    assert clock.now_ms() == 1_500
