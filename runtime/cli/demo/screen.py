"""Progress display of the demo: live in a terminal with rich, as plain lines otherwise."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO

from tidegate.runtime.cli.demo.chart import sparkline
from tidegate.runtime.cli.demo.timeline import Timeline

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["LiveScreen", "PlainScreen", "Screen", "open_screen"]

_PLAIN_EVERY_S: Final = 2.0
_LIVE_EVERY_S: Final = 0.25
_RATE_OVER_S: Final = 1.0


class Screen(Protocol):
    """Where the demo shows itself."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def say(self, text: str) -> None:
        """Something happened; stays."""
        ...

    def show(self, timeline: Timeline, now_s: float) -> None:
        """What is going on; called ten times a second."""
        ...


class PlainScreen:
    """Lines, one every two seconds and one for each event."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next_s = _PLAIN_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, text: str) -> None:
        """A line."""
        print(text, file=self._out, flush=True)

    def show(self, timeline: Timeline, now_s: float) -> None:
        """A line if it is time for one."""
        if now_s >= self._next_s:
            self._next_s = now_s + _PLAIN_EVERY_S
            self.say(f"{now_s:5.1f} s  {status_line(timeline, now_s)}")


class LiveScreen:
    """A panel that is redrawn below the lines."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=out, highlight=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next_s = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """A line above the panel."""
        style = "yellow" if "kill -9" in text else "red" if "SABOTAGE" in text else None
        self._live.console.print(text, style=style, markup=False)

    def show(self, timeline: Timeline, now_s: float) -> None:
        """Draw the panel if it is time to."""
        if now_s >= self._next_s:
            self._next_s = now_s + _LIVE_EVERY_S
            self._live.update(self._panel(timeline, now_s), refresh=True)

    def _panel(self, timeline: Timeline, now_s: float) -> RenderableType:
        from rich.panel import Panel
        from rich.text import Text

        width = max(min(self._live.console.width - 4, 90), 10)
        text = Text(sparkline(timeline, width) + "\n", style="cyan", no_wrap=True)
        text.highlight_regex("✗", "bold red")
        text.append(status_line(timeline, now_s), style="bold")
        return Panel(text, title=f"tidegate demo · {now_s:.0f} s", title_align="left", border_style="dim")


def open_screen(out: TextIO) -> Screen:
    """The best there is for `out`."""
    if not out.isatty():
        return PlainScreen(out)
    try:
        return LiveScreen(out)
    except ImportError:
        return PlainScreen(out)


def status_line(timeline: Timeline, now_s: float) -> str:
    """The numbers that count, in one line."""
    samples = timeline.samples
    last = samples[-1]
    earlier = next(
        (each for each in samples if each.run == last.run and each.at_s > now_s - _RATE_OVER_S), last
    )
    passed_s = last.at_s - earlier.at_s
    per_second = (last.records - earlier.records) / passed_s if passed_s > 0 else 0.0
    phase = "running" if last.records else "restoring" if last.run else "starting"
    return (
        f"{phase}: {per_second:7,.0f} records/s, {len(timeline.checkpoints)} checkpoints settled, "
        f"{len(timeline.kills)} of 3 kills, {last.run} restarts"
    )
