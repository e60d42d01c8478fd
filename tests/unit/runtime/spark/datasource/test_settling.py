from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tidegate.backends.storage import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.errors import CommitFailedError, CommitUnknownError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.spark.datasource.batches import Batches, Record
from tidegate.runtime.spark.datasource.settling import PATIENCE_S, settle
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Committer, GlobalCommitter, Retry

DONE, AGAIN, LOST = CommitAnswer.COMMITTED, Retry("no broker answers"), CommitAnswer.ABORTED
BEFORE, UNKNOWN = CommitAnswer.ALREADY_COMMITTED, CommitAnswer.UNKNOWN


class Told(Committer):
    """Answers as it is told, each time with the next of a part's answers, the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self._answers = answers
        self.calls = list[str]()

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        self.calls.append(f"commit {len(committables)}")
        told = [self._answers[each.subtask] for each in committables]
        return [each.pop(0) if len(each) > 1 else each[0] for each in told]

    def abort_except(self, keep: Sequence[Committable]) -> int:
        self.calls.append(f"abort except {len(keep)}")
        return 0


@pytest.fixture
def batches() -> Batches:
    return Batches(MemoryStorage(), "query")


def decided(batches: Batches, parts: int) -> Record:
    uid, number = OperatorUid("0"), CheckpointId(4)
    return batches.decide(
        4, tuple(Committable(uid, part, number, b"", f"part {part}", 5) for part in range(parts))
    )


def test_losers_are_removed_when_everything_is_visible_and_not_before(batches: Batches) -> None:
    told = Told([DONE], [AGAIN, BEFORE])
    settle(batches, decided(batches, 2), told, ManualClock())
    found = batches.decided(4)

    assert told.calls == ["commit 2", "commit 1", "abort except 0"]
    assert found is not None
    assert found.state == "settled"
    settle(batches, found, told, ManualClock())
    assert len(told.calls) == 3


class Finish(GlobalCommitter):
    """Notes when it is called beside the calls of a committer."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        self._told.calls.append(f"finish {checkpoint} with {len(committables)}")


def test_a_sink_finishes_a_batch_as_a_whole_when_all_of_it_is_visible(batches: Batches) -> None:
    told = Told([DONE], [AGAIN, DONE])
    settle(batches, decided(batches, 2), told, ManualClock(), whole=Finish(told))
    settle(batches, batches.decide(5, ()), told, ManualClock(), whole=Finish(told))

    assert told.calls == ["commit 2", "commit 1", "abort except 0", "finish 4 with 2", "abort except 0"]


def test_a_driver_that_slept_through_the_settlement_removes_nothing(batches: Batches) -> None:
    record = decided(batches, 1)
    settle(batches, record, Told([DONE]), ManualClock())
    late = Told([BEFORE])
    settle(batches, record, late, ManualClock())

    assert late.calls == ["commit 1"]


def test_a_batch_without_output_is_settled_too(batches: Batches) -> None:
    settle(batches, batches.decide(0, ()), Told(), ManualClock())
    found = batches.decided(0)
    assert found is not None
    assert found.state == "settled"


def test_output_of_which_nothing_is_left_withdraws_the_decision(batches: Batches) -> None:
    told = Told([LOST], [LOST])
    with pytest.raises(
        CommitFailedError, match=r"^batch 4: its output expired .* part 1 \(5 records\); the decision is"
    ):
        settle(batches, decided(batches, 2), told, ManualClock())
    assert batches.decided(4) is None
    assert told.calls == ["commit 2"]


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([DONE, LOST], CommitFailedError),
        ([DONE, UNKNOWN], CommitUnknownError),
        ([LOST, UNKNOWN], CommitUnknownError),
    ],
    ids=["lost", "unknown", "lost or unknown"],
)
def test_what_only_a_person_can_decide_stops_until_it_is_accepted(
    batches: Batches, answers: list[CommitAnswer], error: type[Exception]
) -> None:
    record = decided(batches, 2)
    for _ in range(2):
        told = Told(*([each] for each in answers))
        with pytest.raises(error, match=r"^checkpoint 4 is decided but") as failed:
            settle(batches, record, told, ManualClock())
        assert failed.value.__notes__ == [
            "a query of Spark continues without the lost output by .option('accept_loss', 4)"
        ]
        assert batches.decided(4) == record
    settle(batches, record, Told(*([each] for each in answers)), ManualClock(), accepted=4)
    found = batches.decided(4)
    assert found is not None
    assert found.state == "settled"


def test_a_system_that_does_not_answer_is_asked_for_a_while(batches: Batches) -> None:
    clock, told = ManualClock(), Told([AGAIN])
    with pytest.raises(
        UnavailableError,
        match=r"^batch 4 is decided, but cannot be committed now: sink '0' part 0 \(5 records; no broker answers\); start the query again when",
    ):
        settle(batches, decided(batches, 1), told, clock)
    assert clock.monotonic() >= PATIENCE_S
    found = batches.decided(4)
    assert found is not None
    assert found.state == "decided"
