"""The sink for systems without transactions: what is delivered when, and what is said when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.connectors.base import WriteAheadSink
from tidegate.elements import Batch, RowKind
from tidegate.errors import RecordError, UnavailableError, UserCodeError
from tidegate.ids import CheckpointId
from tidegate.testing.sink import SinkRig, SinkTarget
from tidegate.twophase.spi import CommitAnswer, Retry


class System:
    """Takes what it is given under a token once; raises what is queued first."""

    def __init__(self, *failing: Exception) -> None:
        self.taken: dict[str, list[Any]] = {}
        self.failing = list(failing)

    def __call__(self, token: str, records: list[Any]) -> bool:
        if self.failing:
            raise self.failing.pop(0)
        new = token not in self.taken
        self.taken.setdefault(token, records)
        return new


def rig(system: System) -> SinkRig:
    return SinkRig(SinkTarget(WriteAheadSink(system), list))


def test_tokens_differ_by_subtask_and_checkpoint() -> None:
    system = System()
    use = rig(system)
    use.commit(use.epoch(["a"], 1, subtask=0), use.epoch(["b"], 1, subtask=1), use.epoch(["c"], 2))

    assert sorted(records[0] for records in system.taken.values()) == ["a", "b", "c"]


def test_a_record_that_changes_after_it_was_written_is_delivered_as_it_was() -> None:
    system = System()
    use = rig(system)
    record = {"total": 1}
    writer = use.writer()
    writer.write(Batch([record]))
    record["total"] = 2
    work = use.prepare(writer, 1)
    assert work is not None
    use.commit(work)

    assert list(system.taken.values()) == [[{"total": 1}]]


def test_a_system_that_does_not_answer_is_asked_again() -> None:
    use = rig(System(UnavailableError("away")))
    work = use.epoch(["a", "b"], 1)

    assert use.commit(work) == [Retry("away")]
    assert use.commit(work) == [CommitAnswer.COMMITTED]


def test_a_failing_delivery_is_named_and_the_others_are_made() -> None:
    system = System(OSError("disk full"))
    use = rig(system)

    with pytest.raises(
        UserCodeError,
        match=r"write-ahead sink \(uid 'sink'\) failed to commit delivery .* of checkpoint 1: OSError: disk full",
    ):
        use.commit(use.epoch(["a"], 1), use.epoch(["b"], 2))
    assert list(system.taken.values()) == [["b"]]


def test_changes_are_refused_and_nothing_of_their_batch_is_written() -> None:
    writer = rig(System()).writer()

    with pytest.raises(
        RecordError,
        match="sink 'sink': the kind of a change would be lost; got 'b' as DELETE; expected inserts",
    ):
        writer.write(Batch(["a", "b"], kinds=[RowKind.INSERT, RowKind.DELETE]))
    assert writer.prepare(CheckpointId(1)) is None
