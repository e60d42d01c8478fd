"""When a refused commit is tried again, what is told of it, and when it has taken too long."""

from __future__ import annotations

from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.retries import CommitRetries, given_up
from tidegate.twophase.spi import CommitAnswer, Committable, Retry

ORDERS, AUDIT = OperatorUid("orders"), OperatorUid("audit")
A, B = (Committable(ORDERS, index, CheckpointId(7), b"", f"file {index}", 3) for index in range(2))
C = Committable(AUDIT, 0, CheckpointId(7), b"", "file of audit", 1)
DENIED, FULL = Retry("permission denied"), Retry("disk full")


def test_waits_double_up_to_ten_seconds_and_begin_again_after_success() -> None:
    retries = CommitRetries(600)
    delays = []
    for number in range(7):
        retries.answered([(A, DENIED), (B, CommitAnswer.COMMITTED)], number)
        delays.append(retries.delay_s([A, B]))
    assert delays == [0.5, 1, 2, 4, 8, 10, 10]
    assert retries.delay_s([B]) == 0
    retries.answered([(A, CommitAnswer.COMMITTED)], 8)
    assert retries.delay_s([A]) == 0


def test_a_reason_is_told_when_it_begins_and_when_it_changes() -> None:
    retries = CommitRetries(600)
    assert retries.answered([(A, DENIED), (B, DENIED), (C, FULL)], 0) == {
        ORDERS: "permission denied",
        AUDIT: "disk full",
    }
    assert retries.answered([(A, DENIED)], 100) == {}
    assert retries.answered([(A, FULL)], 101) == {ORDERS: "disk full"}
    assert retries.answered([(A, DENIED), (B, FULL)], 200) == {}


def test_reasons_that_differ_each_time_are_told_every_ten_seconds_at_most() -> None:
    retries = CommitRetries(600)
    told = [retries.answered([(A, Retry(f"refused {now}"))], now) for now in range(31)]
    assert [now for now, news in enumerate(told) if news] == [0, 10, 20, 30]


def test_a_reason_is_told_again_after_a_success() -> None:
    retries = CommitRetries(600)
    retries.answered([(A, DENIED)], 0)
    retries.answered([(A, CommitAnswer.COMMITTED)], 1)
    assert retries.answered([(B, DENIED)], 2) == {ORDERS: "permission denied"}


def test_patience_counts_from_the_end_or_from_the_refusal_whichever_is_later() -> None:
    retries = CommitRetries(10)
    retries.answered([(A, DENIED)], 0)
    assert not retries.overdue(1_000, ending=False)
    assert [retries.overdue(now, ending=True) for now in (1_000, 1_009, 1_010)] == [False, False, True]
    retries.answered([(A, CommitAnswer.COMMITTED), (B, DENIED)], 1_011)
    assert [retries.overdue(now, ending=True) for now in (1_020, 1_021)] == [False, True]


def test_the_verdict_names_what_is_not_visible_and_why() -> None:
    assert str(given_up([A], {A: "permission denied"}, 600)) == (
        "decided output is not visible: its commit was refused for 600 s at the end of the job: "
        "sink 'orders' file 0 (3 records; permission denied); nothing is lost; repair the cause and start the job again, "
        "which commits it"
    )
