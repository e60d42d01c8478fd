from __future__ import annotations

from tidegate.clock import ManualClock
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.status import JobEvent, RunStatus
from tidegate.runtime.task.flow import Flow


def test_events_fold_into_one_snapshot() -> None:
    clock = ManualClock(now_ms=1_000)
    status = RunStatus(clock)
    status.become("running")
    status.note("decided", "checkpoint 1")
    status.settled(CheckpointId(1))
    status.note("restart", "worker 1 is gone")
    clock.advance(2_500)

    snapshot = status.snapshot()

    assert (snapshot.state, snapshot.elapsed_s, snapshot.decided, snapshot.settled) == ("running", 2.5, 1, 1)
    assert (snapshot.newest_settled, snapshot.settled_age_s, snapshot.restarts) == (1, 2.5, 1)
    assert status.events[0] == JobEvent(1_000, "state", "running")


def test_a_checkpoint_takes_from_its_trigger_to_its_decision() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    status.note("triggered", "checkpoint 1")
    clock.advance(40)
    assert status.snapshot().checkpoint_ms is None

    status.note("decided", "checkpoint 1")
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


def test_the_rate_is_of_the_last_half_second_not_of_the_whole_run() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    clock.advance(1_000)
    status.progress(0, 1_000)
    assert status.snapshot().per_second == 1_000

    clock.advance(100)
    assert status.snapshot().per_second == 1_000, "too soon to tell"
    clock.advance(900)
    status.progress(0, 1_500)
    assert status.snapshot().per_second == 500
