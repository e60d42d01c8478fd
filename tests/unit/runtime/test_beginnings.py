"""What a start says of where it begins, and when its first checkpoint comes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.test_job import ORDERS, Told, start
from tidegate.backends.storage import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.ids import CheckpointId, LineageId, OperatorUid, RunId
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import Status


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def ended(storage: MemoryStorage, status: Status) -> None:
    """A run that settled checkpoint 8 at the beginning of time, and ended."""
    pipeline = Pipeline(storage, ORDERS, RunId("before"), ManualClock())
    pipeline.acquire(lambda: LineageId("l"), fresh=False, say=print)
    number, branch = CheckpointId(8), pipeline.record.branch
    states = (OperatorState(OperatorUid("source"), "source", 1, 128),)
    pipeline.archive.write(
        Manifest(ORDERS, LineageId("l"), branch, RunId("before"), number, None, 0, states, ())
    )
    pipeline.decide(number)
    pipeline.archive.mark_settled(Retained(RunId("before"), number))
    pipeline.leave(status)


def test_a_start_after_a_stop_says_from_where_and_nothing_of_what_the_stopped_writers_had_open(
    storage: MemoryStorage,
) -> None:
    ended(storage, "stopped")
    said = list[str]()
    startup = start(storage, Told(), said, clock=ManualClock(4_000))
    startup.acquire()

    startup.start_point()
    assert said == ["resuming from checkpoint 8, taken 4 s ago"]

    startup.start_point()
    assert said[1:] == ["sink 'sink': aborted 3 prepared transactions that were never decided"], (
        "what a failure left"
    )


@pytest.mark.parametrize(
    ("status", "settings", "expected"),
    [
        (
            "finished",
            {},
            "starting without state: the last run of 'orders' finished; this run reads its input from the beginning",
        ),
        (
            "canceled",
            {},
            "starting without state: the last run of 'orders' was cancelled; this run reads its input from the beginning",
        ),
        ("stopped", {"fresh": True}, "starting without state: --fresh ignores the checkpoints of 'orders'"),
    ],
)
def test_a_start_that_does_not_resume_says_why(
    storage: MemoryStorage,
    status: Any,
    settings: dict[str, Any],
    expected: str,
) -> None:
    ended(storage, status)
    said = list[str]()
    startup = start(storage, Told(), said, **settings)
    startup.acquire()

    startup.start_point()

    assert said[0] == expected


@pytest.mark.parametrize(
    ("settings", "first_ms"),
    [
        ({}, 1_000),
        ({"interval_ms": 10_000}, None),
        ({"pause_ms": 500}, None),
        ({"checkpointing": "NONE"}, None),
    ],
    ids=["nothing set", "interval", "pause", "no checkpoints"],
)
def test_the_first_checkpoint_comes_early_where_the_user_set_no_pace(
    storage: MemoryStorage, settings: dict[str, Any], first_ms: int | None
) -> None:
    program = start(storage, Told(), [], **settings).program

    assert program.first_ms(program.graph(None)) == first_ms


def test_a_first_start_begins_at_the_beginning(storage: MemoryStorage) -> None:
    sink, said = Told(), list[str]()
    startup = start(storage, sink, said)
    startup.acquire()

    point = startup.start_point()

    assert (point.checkpoint, point.restored, startup.resumed_from) == (None, {}, None)
    assert sink.asked == ["abort except 0"]
    assert said == [
        "starting without state: 'orders' has no checkpoint yet",
        "sink 'sink': aborted 3 prepared transactions that were never decided",
    ]
