from __future__ import annotations

from tidegate.ids import CheckpointId
from tidegate.runtime.observe.checkpoints import CheckpointHistory
from tidegate.runtime.observe.events import EventType, JobEvent


def told(
    history: CheckpointHistory,
    what: EventType,
    number: int,
    now_s: float = 0.0,
    *,
    size: int | None = None,
    transactions: int | None = None,
    sinks: dict[str, int] | None = None,
) -> None:
    event = JobEvent(
        round(now_s * 1000),
        what,
        f"checkpoint {number}",
        CheckpointId(number),
        size=size,
        transactions=transactions,
        sinks=sinks,
    )
    history.on(event, now_s)


def test_a_checkpoint_is_followed_from_its_trigger_to_its_settlement() -> None:
    history = CheckpointHistory()
    told(history, "triggered", 1, 1.0)
    told(history, "acked", 1, 1.01)
    told(history, "acked", 1, 1.02)
    told(history, "decided", 1, 1.03, size=100, transactions=2)
    told(history, "settled", 1, 1.5)

    (figures,) = history.figures
    assert (figures.state, figures.acked, figures.size, figures.transactions) == ("settled", 2, 100, 0)
    assert (figures.triggered_ms, figures.decided_after_ms, figures.settled_after_ms) == (1_000, 30, 500)
    assert (history.newest_settled, history.settled_at_s) == (1, 1.5)


def test_one_that_is_given_up_says_why() -> None:
    history = CheckpointHistory()
    told(history, "triggered", 1)
    told(history, "aborted", 1)

    assert [(each.state, each.reason) for each in history.figures] == [("aborted", "checkpoint 1")]
    assert history.newest_decided is None


def test_a_settled_one_settles_all_before_it() -> None:
    history = CheckpointHistory()
    for number in (1, 2):
        told(history, "triggered", number)
        told(history, "decided", number, transactions=3)
    assert history.open_transactions == 6

    told(history, "settled", 2)

    assert history.open_transactions == 0
    assert {each.state for each in history.figures} == {"settled"}


def test_only_the_newest_are_kept_and_those_whose_output_is_open() -> None:
    history = CheckpointHistory()
    for number in range(1, 31):
        told(history, "triggered", number)
        told(history, "decided", number, transactions=1)
        if number > 1:
            told(history, "aborted", number)

    assert [each.checkpoint for each in history.figures] == list(range(21, 31))
    assert history.open_transactions == 1, "of the first one"


def test_what_concerns_no_checkpoint_or_an_unknown_one_changes_nothing() -> None:
    history = CheckpointHistory()
    history.on(JobEvent(0, "state", "running"), 0.0)
    told(history, "acked", 7)

    assert history.figures == ()


def test_each_sink_has_its_outcome_and_the_checkpoint_is_settled_when_all_have() -> None:
    history = CheckpointHistory()
    told(history, "triggered", 1)
    told(history, "decided", 1, transactions=3, sinks={"orders": 2, "audit": 1})
    told(history, "committed", 1, sinks={"orders": 1})

    assert history.figures[-1].sinks == {"orders": 1, "audit": 0}
    assert (history.figures[-1].state, history.open_transactions) == ("decided", 1)

    told(history, "committed", 1, sinks={})
    told(history, "settled", 1)
    assert history.figures[-1].sinks == {"orders": 0, "audit": 0}
    assert history.figures[-1].state == "settled"
