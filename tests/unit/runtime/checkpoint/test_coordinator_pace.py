"""When checkpoints begin, and which of them overtake what is in front of their barriers."""

from __future__ import annotations

import pytest

from tests.unit.runtime.checkpoint.test_coordinator import ONE, THREE, TWO, A, B, coordinator, decide
from tidegate.backends.spi import StoredChunk
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.retention import Release
from tidegate.runtime.operators.environment import OperatorReport


@pytest.mark.spec("002/AX-44")
def test_a_slow_checkpoint_is_dropped_and_no_two_run_at_once_or_close_to_each_other() -> None:
    made = coordinator(interval_ms=1_000, pause_ms=500, timeout_ms=60_000)

    assert made.on(cp.Tick(1_000)) == [cp.Trigger(ONE, None)]
    running = [action for now in range(1_050, 61_000, 50) for action in made.on(cp.Tick(now))]
    assert running == [], "none starts while one runs"
    (abort,) = made.on(cp.Tick(61_000))
    assert abort == cp.Abort(ONE, "not acknowledged within 60000 ms by a[0], b[0]")
    assert [made.on(cp.Tick(now)) for now in (61_050, 61_500, 61_549)] == [[], [], []]
    assert made.on(cp.Tick(61_550)) == [cp.Trigger(TWO, None)]
    decide(made, TWO)
    assert [made.on(cp.Tick(now)) for now in (61_600, 62_550)] == [[], [cp.Trigger(THREE, TWO)]]
    made.on(cp.Tick(64_000))
    decide(made, THREE)
    assert [made.on(cp.Tick(now)) for now in (64_001, 64_500)] == [[], []], "though an interval is over"
    assert made.on(cp.Tick(64_501)) == [cp.Trigger(CheckpointId(4), THREE)]


def test_the_first_checkpoint_may_come_sooner_than_the_others() -> None:
    made = coordinator(interval_ms=10_000, first_ms=1_000)

    assert [made.on(cp.Tick(now)) for now in (0, 999, 1_000)] == [[], [], [cp.Trigger(ONE, None)]]
    decide(made, ONE)
    assert [made.on(cp.Tick(now)) for now in (2_000, 10_999)] == [[], []]
    assert made.on(cp.Tick(11_000)) == [cp.Trigger(TWO, ONE)]

    short = coordinator(interval_ms=100, first_ms=1_000)
    assert [short.on(cp.Tick(now)) for now in (0, 100)] == [[], [cp.Trigger(ONE, None)]]


def test_a_savepoint_and_the_last_checkpoint_do_not_wait_for_a_pause() -> None:
    made = coordinator(pause_ms=5_000)
    made.on(cp.Tick(100))
    decide(made, ONE)

    made.on(cp.SavepointWanted("here"))
    assert made.on(cp.Tick(200)) == [cp.Trigger(TWO, ONE)]
    decide(made, TWO)
    assert made.on(cp.Finish("finish")) == [cp.Trigger(THREE, TWO)]


def test_barriers_are_overtaken_at_once_or_when_they_take_too_long() -> None:
    at_once, later = coordinator(aligned_ms=0), coordinator(aligned_ms=200)

    assert at_once.on(cp.Tick(100)) == later.on(cp.Tick(100)) == [cp.Trigger(ONE, None)]
    assert at_once.on(cp.Ack(A, ONE, ())) == [cp.Announce(ONE, None)]
    assert at_once.on(cp.Tick(150)) == [], "it is said once"
    assert later.on(cp.Ack(A, ONE, ())) == []
    assert [later.on(cp.Tick(now)) for now in (299, 300, 350)] == [[], [cp.Announce(ONE, None)], []]


def test_a_savepoint_and_the_last_checkpoint_are_never_overtaking() -> None:
    made = coordinator(aligned_ms=0)

    made.on(cp.SavepointWanted("here"))
    assert made.on(cp.Tick(10)) == [cp.Trigger(ONE, None)]
    assert made.on(cp.Ack(A, ONE, ())) == made.on(cp.Tick(20)) == []
    decide(made, ONE)
    assert made.on(cp.Finish("stop")) == [cp.Trigger(TWO, ONE)]
    assert made.on(cp.Ack(A, TWO, ())) == made.on(cp.Tick(900)) == []


def test_nothing_is_announced_before_somebody_has_taken_part() -> None:
    made = coordinator(aligned_ms=50)
    made.on(cp.Tick(100))

    assert made.on(cp.Tick(300)) == []
    assert made.on(cp.Ack(A, ONE, ())) == [cp.Announce(ONE, None)]


def test_what_a_checkpoint_has_overtaken_is_deleted_with_it_when_it_is_given_up() -> None:
    made = coordinator(aligned_ms=0)
    made.on(cp.Tick(100))
    overtaken = OperatorReport(OperatorUid("b"), 0, in_flight=StoredChunk("run/shared/f", 9, 1))
    made.on(cp.Ack(B, ONE, (overtaken,)))
    made.on(cp.Tick(1_100))

    made.on(cp.Tick(1_200))
    decide(made, TWO)
    assert made.on(cp.SettledDurable(TWO)) == [cp.Settled(TWO), Release((), frozenset(["run/shared/f"]))]


def test_a_checkpoint_is_not_decided_once_prepared_work_could_expire_before_its_commit() -> None:
    made = coordinator(interval_ms=1_000, timeout_ms=60_000)
    made.on(cp.Tick(1_000))
    made.on(cp.Ack(A, ONE, (), spare_ms=2_000))
    made.on(cp.Tick(2_500))
    made.on(cp.Ack(B, ONE, (), spare_ms=5_000))

    made.on(cp.Tick(3_001))
    assert made.on(cp.MetadataDurable(ONE, frozenset())) == [
        cp.Abort(ONE, "it took so long that prepared work could expire before its commit")
    ]

    assert made.on(cp.Tick(3_002)) == [cp.Trigger(TWO, None)]
    made.on(cp.Ack(A, TWO, (), spare_ms=0))
    made.on(cp.Ack(B, TWO, ()))
    assert made.on(cp.MetadataDurable(TWO, frozenset())) == [cp.SwapLatest(TWO)], "just in time"
