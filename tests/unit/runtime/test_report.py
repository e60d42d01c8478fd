from __future__ import annotations

import io
import json

import pytest

from tidegate.clock import ManualClock
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.options import Progress
from tidegate.runtime.report import Reporter, line
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task.flow import Flow


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(form: Progress, out: io.StringIO) -> list[str]:
    """A run of thirty seconds with one restart, as a reporter shows it."""
    clock = ManualClock()
    status, reporter = RunStatus(clock), Reporter(form, "orders", out, clock)
    reporter.say("pipeline 'orders'")
    status.become("running")
    for second in range(30):
        if second == 12:
            status.note("restart", "worker 1 is gone")
            status.settled(CheckpointId(3))
        status.progress(0, 100 * second)
        reporter.show(status)
        clock.advance(1_000)
    status.become("finished")
    reporter.show(status)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("form", ["plain", "auto"])
def test_plain_lines_come_every_ten_seconds_and_when_something_happens(form: Progress) -> None:
    assert shown(form, io.StringIO()) == [
        "pipeline 'orders'",
        "orders: running, 0 records, 0/s, 0 checkpoints",
        "orders: running, 1,000 records, 100/s, 0 checkpoints",
        "orders: restart: worker 1 is gone",
        "orders: running, 2,000 records, 100/s, 1 checkpoints, settled 8.0 s ago, 1 restarts",
        "orders: finished, 2,900 records, 90/s, 1 checkpoints, settled 18.0 s ago, 1 restarts",
    ]


def test_json_is_one_object_a_line_for_all_that_is_said_and_shown() -> None:
    lines = [json.loads(line) for line in shown("json", io.StringIO())]

    assert lines[0] == {"job": "orders", "said": "pipeline 'orders'"}
    assert {"job": "orders", "said": "orders: restart: worker 1 is gone"} in lines
    states = [line for line in lines if "state" in line]
    assert len(states) == 31
    assert states[-1]["state"] == "finished"
    assert (states[-1]["newest_settled"], states[-1]["records"]) == (3, 2_900)


def test_whoever_is_held_up_and_whoever_is_slow_are_named() -> None:
    out, clock = io.StringIO(), ManualClock()
    status, reporter = RunStatus(clock), Reporter("plain", "orders", out, clock)
    status.become("running")
    flows = {Subtask("read", 0): Flow("high", 0.9, 1.0, 0.0), Subtask("write", 0): Flow("ok", 0.0, 0.0, 1.0)}
    status.progress(0, 1, flow=flows)

    reporter.show(status)

    assert out.getvalue().endswith("0 checkpoints, busy: write | read 0/s, backpressured 90% | write 0/s\n")


def test_off_says_nothing() -> None:
    assert shown("off", io.StringIO()) == []


def test_a_terminal_has_one_line_that_changes_and_keeps_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    shown("auto", out)
    text = out.getvalue()

    assert text.count("\r\x1b[Korders: running") == 30
    assert "\r\x1b[Korders: restart: worker 1 is gone\n" in text
    assert text.endswith("1 restarts\n")


def test_a_row_of_a_terminal_is_never_wider_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    out, clock = Terminal(), ManualClock()
    status, reporter = RunStatus(clock), Reporter("auto", "orders", out, clock)
    status.become("running")

    reporter.show(status)

    assert out.getvalue() == "\r\x1b[Korders: running, 0 records, …\n"


def test_checkpoints_show_their_size_and_what_is_open() -> None:
    status = RunStatus(ManualClock())
    status.note("triggered", "checkpoint 1", checkpoint=CheckpointId(1))
    status.decided(CheckpointId(1), 20 * 1024, {"orders": 2})

    assert line("orders", status.snapshot()) == (
        "orders: created, 0 records, 0/s, 0 checkpoints, 20.0 KiB, 2 transactions open"
    )
