"""Who gets slots, who waits for them, and who has waited too long."""

from __future__ import annotations

import pytest

from tidegate.runtime.schedule.slot_pool import Fulfilled, Missing, Registered, SlotPool, Start, Tick, Wanted
from tidegate.runtime.schedule.slots import Slot

LEFT, RIGHT = (Slot(0, 0), Slot(1, 0)), (Slot(2, 0),)


@pytest.mark.spec("003/RM-01", "003/RM-06")
def test_a_part_runs_when_all_of_its_task_managers_have_registered() -> None:
    pool = SlotPool(timeout_ms=1_000)

    assert pool.on(Wanted(0, LEFT, now_ms=0)) == [Start(0, (0, 1))]
    assert pool.on(Registered(1)) == []
    assert pool.on(Registered(0)) == [Fulfilled(0)]
    assert pool.on(Tick(10_000)) == []


@pytest.mark.spec("004/SCH-016")
def test_a_part_that_has_its_slots_does_not_wait_for_another() -> None:
    pool = SlotPool(timeout_ms=1_000)
    pool.on(Wanted(0, LEFT, now_ms=0))
    pool.on(Wanted(1, RIGHT, now_ms=0))

    assert pool.on(Registered(0)) == []
    assert pool.on(Registered(2)) == [Fulfilled(1)]
    assert pool.on(Tick(1_000)) == [Missing(0, needed=2, there=1)]


def test_slots_of_one_task_manager_come_together() -> None:
    pool = SlotPool(timeout_ms=1_000)

    assert pool.on(Wanted(0, (Slot(3, 0), Slot(3, 1)), now_ms=0)) == [Start(0, (3,))]
    assert pool.on(Registered(3)) == [Fulfilled(0)]


def test_a_part_is_missed_once_and_not_before_its_time() -> None:
    pool = SlotPool(timeout_ms=1_000)
    pool.on(Wanted(0, LEFT, now_ms=500))

    assert pool.on(Tick(1_499)) == []
    assert pool.on(Tick(1_500)) == [Missing(0, needed=2, there=0)]
    assert pool.on(Tick(9_000)) == []


def test_a_part_that_comes_back_needs_task_managers_anew() -> None:
    pool = SlotPool(timeout_ms=1_000)
    pool.on(Wanted(0, RIGHT, now_ms=0))
    pool.on(Registered(2))

    assert pool.on(Wanted(0, RIGHT, now_ms=5_000)) == [Start(0, (2,))]
    assert pool.on(Tick(5_999)) == []
    assert pool.on(Registered(2)) == [Fulfilled(0)]
