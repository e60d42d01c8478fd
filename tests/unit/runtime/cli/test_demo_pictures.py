from __future__ import annotations

import io
import sys
from xml.etree import ElementTree

import pytest

from tidegate.runtime.cli.demo.chart import picture, sparkline
from tidegate.runtime.cli.demo.screen import LiveScreen, PlainScreen, open_screen, status_line
from tidegate.runtime.cli.demo.timeline import Kill, Sample, Timeline

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def timeline() -> Timeline:
    """4 s at 1,000 records a second, a kill, 1 s of silence, 5 s at 2,000."""
    story = Timeline()
    for step in range(9):
        story.add(Sample(step / 2, 0, 500 * step, step // 2))
    story.kills.append(Kill(4.0, 77, -9))
    for step in range(11):
        story.add(Sample(5 + step / 2, 1, 1_000 * step, step // 2))
    return story


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_throughput_counts_each_run_from_zero_and_silence_as_nothing(timeline: Timeline) -> None:
    assert timeline.throughput(10) == pytest.approx([1_000] * 4 + [0] + [2_000] * 5)


def test_checkpoints_are_counted_over_all_runs(timeline: Timeline) -> None:
    assert timeline.checkpoints == [1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0]


def test_recovery_lasts_from_the_kill_to_the_first_record(timeline: Timeline) -> None:
    assert timeline.recovery_s(timeline.kills[0]) == 1.5
    assert timeline.recovery_s(Kill(10.0, 78, -9)) is None


def test_repeated_reports_of_the_same_number_are_no_standstill() -> None:
    story = Timeline([Sample(step / 5, 0, 400 * (step // 2), 0) for step in range(21)])

    rates = [stretch.per_second for stretch in story.stretches(0)]

    assert rates == pytest.approx([1_000] * len(rates), rel=0.2)


def test_a_run_that_dies_early_is_one_stretch() -> None:
    story = Timeline([Sample(0.0, 0, 0, 0), Sample(0.2, 0, 300, 0)])

    assert [stretch.per_second for stretch in story.stretches(0)] == [1_500]


def test_a_sparkline_has_a_cross_where_the_job_was_killed(timeline: Timeline) -> None:
    assert sparkline(timeline, 10) == "▄▄▄▄✗█████"


def test_the_picture_shows_kills_recoveries_and_checkpoints(timeline: Timeline) -> None:
    svg = picture(timeline, "nothing lost, nothing twice: 14,000 records", passed=True)

    said = texts(svg)
    assert said.count("kill -9") == 1
    assert "back in 1.5 s" in said
    assert {"nothing lost, nothing twice", "14,000 records"} <= set(said)
    circles = list(ElementTree.fromstring(svg).iter(f"{SVG}circle"))
    assert len(circles) == len(timeline.checkpoints) + 1


def test_the_picture_of_a_failure_is_red_and_escapes_what_it_says(timeline: Timeline) -> None:
    svg = picture(timeline, "1 < 2 & lost: all", passed=False)

    (claim,) = (
        each for each in ElementTree.fromstring(svg).iter(f"{SVG}text") if each.text == "1 < 2 & lost"
    )
    assert claim.get("fill") == "#c53030"


def test_a_run_that_never_read_anything_has_a_picture_too() -> None:
    story = Timeline()
    story.add(Sample(0.0, 0, 0, 0))

    assert "0 s" in texts(picture(story, "lost: all", passed=False))
    assert sparkline(story, 5) == "     "


def test_plain_lines_come_every_two_seconds(timeline: Timeline) -> None:
    out = io.StringIO()

    with open_screen(out) as screen:
        for tenth in range(45):
            screen.show(timeline, tenth / 10)
        screen.say("done")

    assert isinstance(screen, PlainScreen)
    assert [line[:7] for line in out.getvalue().splitlines()] == ["  2.0 s", "  4.0 s", "done"]


def test_the_status_line_tells_rate_checkpoints_kills_and_restarts(timeline: Timeline) -> None:
    assert status_line(timeline, 10.0) == (
        "running:   2,000 records/s, 9 checkpoints settled, 1 of 3 kills, 1 restarts"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_panel_that_is_gone_at_the_end(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()

    with open_screen(out) as screen:
        screen.show(timeline, 10.0)
        screen.say("kill -9 to job 77")

    assert isinstance(screen, LiveScreen)
    assert "tidegate demo · 10 s" in out.getvalue()
    assert "kill -9 to job 77" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")


def test_a_terminal_without_rich_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)

    assert isinstance(open_screen(Terminal()), PlainScreen)
