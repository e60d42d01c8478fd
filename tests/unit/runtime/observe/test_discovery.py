"""Looks for new splits that fail are counted and shown, and lead to an alarm."""

from __future__ import annotations

import io

import pytest

from tidegate.clock import ManualClock
from tidegate.ids import OperatorUid, PipelineId, RunId
from tidegate.runtime.observe.prometheus import Subject, exposition
from tidegate.runtime.report import Reporter
from tidegate.runtime.status import RunStatus

ORDERS = OperatorUid("orders")
AWAY = "no broker answers"


class Run:
    """The status of a run whose source looks every so many seconds."""

    def __init__(self, every_s: int) -> None:
        self.clock = ManualClock()
        self.every_ms = every_s * 1_000
        self.status = RunStatus(self.clock)

    def look(self, *reasons: str | None) -> None:
        for reason in reasons:
            self.clock.advance(self.every_ms)
            self.status.discovery.looked(ORDERS, reason)

    @property
    def events(self) -> list[str]:
        return [event.what for event in self.status.events]


def test_a_failure_is_an_event_when_it_begins_and_when_it_is_over_not_each_time() -> None:
    run = Run(every_s=1)
    run.look(None, AWAY, AWAY, AWAY, None, None, AWAY)

    assert run.events == ["discovery-failed", "discovery-recovered", "discovery-failed"]
    assert next(iter(run.status.events)).text == "source 'orders': split discovery failed: no broker answers"


@pytest.mark.parametrize(("every_s", "looks"), [(10, 7), (30, 3), (300, 3)])
def test_an_alarm_takes_three_failed_looks_and_a_minute(every_s: int, looks: int) -> None:
    run = Run(every_s)
    run.look(*[AWAY] * (looks - 1))
    assert run.status.snapshot().warnings == ()

    run.look(AWAY, AWAY)
    (warning,) = run.status.snapshot().warnings
    assert run.events == ["discovery-failed", "discovery-alarm"]
    lasted_s = looks * every_s
    assert warning == (
        f"source 'orders': split discovery has failed for {lasted_s} s ({looks + 1} times in a row): {AWAY}"
    )
    run.look(None)
    assert run.status.snapshot().warnings == ()


def test_failed_looks_are_counted_with_their_reason() -> None:
    run = Run(every_s=5)
    run.look(AWAY, None, AWAY, "timed out")
    figures = run.status.snapshot().discovery["orders"]
    assert (figures.failed, figures.failing_s, figures.reason) == (3, 5.0, "timed out")

    page = exposition(Subject("job", PipelineId("p"), RunId("r"), "embedded"), run.status.snapshot())
    labels = '{job="job",pipeline="p",run="r",source="orders"}'
    assert f"tidegate_discovery_failures_total{labels} 3\n" in page
    assert f"tidegate_discovery_failing_seconds{labels} 5.0\n" in page


def test_the_user_is_told_of_a_failure_its_alarm_and_its_end() -> None:
    run, out = Run(every_s=30), io.StringIO()
    reporter = Reporter("plain", "job", out, run.clock)
    run.look(AWAY, AWAY, AWAY)
    reporter.show(run.status)
    run.look(None)
    reporter.show(run.status)

    said = out.getvalue().splitlines()
    assert said[0] == "job: discovery-failed: source 'orders': split discovery failed: no broker answers"
    assert said[1].startswith("job: discovery-alarm: source 'orders': split discovery has failed for")
    assert any("1 warnings" in line for line in said)
    assert "job: discovery-recovered: source 'orders': split discovery works again" in said
