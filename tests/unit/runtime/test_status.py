from __future__ import annotations

import pytest

from tidegate.clock import ManualClock
from tidegate.elements import MAX_WATERMARK
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.observe.checkpoints import by_sink
from tidegate.runtime.status import JobEvent, RunStatus
from tidegate.runtime.task.flow import Flow, back_pressure
from tidegate.twophase.spi import Committable


def test_events_fold_into_one_snapshot() -> None:
    clock = ManualClock(now_ms=1_000)
    status = RunStatus(clock)
    status.become("running")
    status.note("triggered", "checkpoint 1", checkpoint=CheckpointId(1))
    status.decided(CheckpointId(1), 2_048, {"orders": 1, "audit": 2})
    assert (status.snapshot().open_transactions, status.snapshot().checkpoint_bytes) == (3, 2_048)
    status.settled(CheckpointId(1))
    status.note("restart", "worker 1 is gone")
    clock.advance(2_500)

    snapshot = status.snapshot()

    assert (snapshot.state, snapshot.elapsed_s, snapshot.decided, snapshot.settled) == ("running", 2.5, 1, 1)
    assert (snapshot.newest_settled, snapshot.settled_age_s, snapshot.restarts) == (1, 2.5, 1)
    assert (snapshot.open_transactions, snapshot.failure) == (0, "worker 1 is gone")
    assert next(iter(status.events)) == JobEvent(1_000, "state", "running")


def test_a_checkpoint_takes_from_its_trigger_to_its_decision() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    status.note("triggered", "checkpoint 1", checkpoint=CheckpointId(1))
    clock.advance(40)
    assert status.snapshot().checkpoint_ms is None

    status.decided(CheckpointId(1), 0, {})
    clock.advance(40)

    assert status.snapshot().checkpoint_ms == 40


def test_flows_are_of_the_attempt_that_runs() -> None:
    status = RunStatus(ManualClock())
    flow = Flow("high", 0.7, 1.0, 0.0)
    status.progress(0, 1, flow={Subtask("numbers", 0): flow})
    assert status.snapshot().flow == {"numbers[0]": flow}

    status.attempt_begins()

    assert status.snapshot().flow == {}


def test_a_run_without_a_settled_checkpoint_has_no_age() -> None:
    snapshot = RunStatus(ManualClock()).snapshot()

    assert (snapshot.newest_settled, snapshot.settled_age_s, snapshot.records) == (None, None, 0)


def test_records_add_up_over_workers_and_attempts() -> None:
    status = RunStatus(ManualClock())
    status.progress(0, 10)
    status.progress(1, 5)
    status.progress(0, 20)
    assert status.snapshot().records == 25

    status.attempt_over()
    status.progress(0, 3)

    assert status.snapshot().records == 28


def test_the_rate_is_of_the_last_seconds_not_of_the_whole_run() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    clock.advance(1_000)
    status.progress(0, 1_000)
    assert status.snapshot().per_second == 1_000

    clock.advance(100)
    assert status.snapshot().per_second == 1_000, "too soon to tell"
    for _ in range(12):
        clock.advance(1_000)
        status.progress(0, status.snapshot().records + 500)
    assert status.snapshot().per_second == pytest.approx(500, rel=0.1)


def test_a_constant_rate_shows_as_such_though_records_come_in_bursts_and_workers_start_late() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    shown = []
    for half in range(120):
        clock.advance(500)
        status.progress(0, max(0, half // 4 - 1) * 4_000)
        shown.append(status.snapshot().per_second)

    assert shown[:4] == [0, 0, 0, 0], "nothing runs yet"
    assert all(rate == pytest.approx(2_000, rel=0.25) for rate in shown[40:])


def flow(records: int, *, held_up: float = 0.0, receiving: float = 0.0, watermark: int | None = None) -> Flow:
    return Flow(back_pressure(held_up), held_up, 0.0, receiving, records, watermark)


def test_operators_have_rates_a_lag_and_one_of_them_is_slow() -> None:
    clock = ManualClock(now_ms=10_000)
    status = RunStatus(clock)
    for records in (0, 500):
        clock.advance(1_000)
        status.progress(
            0,
            records,
            flow={
                Subtask("read", 0): flow(records, held_up=0.9, watermark=9_000),
                Subtask("sums", 0): flow(records // 2, receiving=0.8, watermark=7_000),
                Subtask("sums", 1): flow(records // 2, receiving=1.0),
            },
        )
        snapshot = status.snapshot()

    assert {uid: each.per_second for uid, each in snapshot.operators.items()} == {"read": 500, "sums": 500}
    assert (snapshot.operators["sums"].subtasks, snapshot.operators["sums"].waiting) == (2, 1.0)
    assert (snapshot.operators["read"].behind_ms, snapshot.behind_ms) == (3_000, 5_000)
    assert snapshot.slowest == "sums"


def test_time_at_its_end_is_behind_nothing() -> None:
    status = RunStatus(ManualClock())
    status.progress(0, 1, flow={Subtask("read", 0): flow(1, watermark=MAX_WATERMARK)})

    assert status.snapshot().behind_ms is None


def test_a_new_attempt_counts_from_nothing_without_a_negative_rate() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    for records in (0, 1_000, 10):
        clock.advance(1_000)
        status.progress(0, records, flow={Subtask("read", 0): flow(records)})
        snapshot = status.snapshot()

    assert snapshot.operators["read"].per_second >= 0


def test_what_an_earlier_attempt_left_open_is_settled_when_the_next_one_begins() -> None:
    status = RunStatus(ManualClock())
    status.note("triggered", "checkpoint 1", checkpoint=CheckpointId(1))
    status.decided(CheckpointId(1), 10, {"orders": 2})
    assert status.snapshot().open_transactions == 2

    status.attempt_begins()

    assert status.snapshot().open_transactions == 0
    assert [each.state for each in status.snapshot().checkpoints] == ["settled"]


def test_others_read_a_snapshot_that_is_replaced_as_a_whole() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    before = status.latest
    status.progress(0, 7)
    status.fold()
    assert status.latest is before, "too soon"

    clock.advance(200)
    status.fold()
    assert (before.records, status.latest.records) == (0, 7)

    status.become("running")
    status.fold()
    assert status.latest.state == "running"


def test_sinks_of_one_checkpoint_become_visible_one_after_the_other_and_settle_together() -> None:
    status = RunStatus(ManualClock(1_000))
    orders = Committable(OperatorUid("orders"), 0, CheckpointId(1), b"", "", 1)

    def answered(*left: Committable) -> None:
        status.note("committed", "checkpoint 1", checkpoint=CheckpointId(1), sinks=by_sink(left))

    status.note("triggered", "checkpoint 1", checkpoint=CheckpointId(1))
    status.decided(CheckpointId(1), 10, {"orders": 1, "audit": 1})

    answered(orders)
    (checkpoint,) = status.snapshot().checkpoints
    assert (checkpoint.state, dict(checkpoint.sinks)) == ("decided", {"orders": 1, "audit": 0})

    answered()
    status.settled(CheckpointId(1))
    (checkpoint,) = status.snapshot().checkpoints
    assert (checkpoint.state, dict(checkpoint.sinks)) == ("settled", {"orders": 0, "audit": 0})
