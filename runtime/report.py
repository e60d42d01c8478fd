"""Progress display of a running job: a live line in a terminal, plain lines or JSON otherwise."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TextIO

import msgspec

from tidegate.clock import Clock
from tidegate.runtime.observe.run_snapshot import OperatorStats, RunSnapshot
from tidegate.runtime.options import Progress
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task.flow import back_pressure

__all__ = ["Reporter", "line", "operator", "readable"]

_SAID = ("restart", "aborted", "discovery-failed", "discovery-alarm", "discovery-recovered")
_LIVE_S, _PLAIN_S, _JSON_S = 0.2, 10.0, 0.2


class Reporter:
    """Writes the progress of a run to `out`, at the rate that suits the form of the display."""

    def __init__(self, form: Progress, name: str, out: TextIO, clock: Clock) -> None:
        self._form = form
        self._name = name
        self._out = out
        self._clock = clock
        self._live = form == "auto" and out.isatty()
        self._every_s = _JSON_S if form == "json" else _LIVE_S if self._live else _PLAIN_S
        self._next = clock.monotonic() + (0 if form == "json" or self._live else _PLAIN_S)
        self._state = ""
        self._told = 0

    def say(self, text: str) -> None:
        """Write one readable line."""
        if self._form == "json":
            self._write(msgspec.json.encode({"job": self._name, "said": text}).decode())
        elif self._form != "off":
            self._write(f"\r\x1b[K{text}" if self._live else text)

    def show(self, status: RunStatus) -> None:
        """Show the run if the interval has passed or its state has changed."""
        for event in status.events.since(self._told):
            if event.what in _SAID:
                self.say(f"{self._name}: {event.what}: {event.text}")
        self._told = status.events.count
        now = self._clock.monotonic()
        changed = status.state != self._state
        if self._form == "off" or (now < self._next and not changed):
            return
        self._next, self._state = now + self._every_s, status.state
        status.fold()
        if self._form == "json":
            self._write(
                msgspec.json.encode({"job": self._name, **dataclasses.asdict(status.latest)}).decode()
            )
        elif self._live:
            self._out.write(f"\r\x1b[K{self._fitting(line(self._name, status.latest))}" + "\n" * changed)
            self._out.flush()
        else:
            self._write(line(self._name, status.latest))

    def _fitting(self, text: str) -> str:
        """The text cut to the width of the terminal, because a line that wraps cannot be overwritten."""
        columns = shutil.get_terminal_size().columns - 1
        return text if len(text) <= columns else f"{text[: columns - 1]}…"

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


def line(name: str, run: RunSnapshot) -> str:
    """A run as one line: records, checkpoints, then each operator."""
    parts = [run.state, f"{run.records:,} records", f"{run.per_second:,.0f}/s", f"{run.settled} checkpoints"]
    if run.settled_age_s is not None:
        parts.append(f"settled {run.settled_age_s:.1f} s ago")
    if run.checkpoint_bytes is not None:
        parts.append(readable(run.checkpoint_bytes))
    if run.open_transactions:
        parts.append(f"{run.open_transactions} transactions open")
    if run.unsettled_reason is not None:
        parts.append(f"commits refused: {run.unsettled_reason}")
    if run.restarts:
        parts.append(f"{run.restarts} restarts")
    if run.warnings:
        parts.append(f"{len(run.warnings)} warnings")
    if run.slowest is not None:
        parts.append(f"busy: {run.slowest}")
    operators = (f" | {operator(uid, figures)}" for uid, figures in run.operators.items())
    return f"{name}: {', '.join(parts)}{''.join(operators)}"


def operator(uid: str, figures: OperatorStats) -> str:
    """One operator as a short text.

    Example:
        >>> operator("sums", OperatorStats(2, 900, 450.0, 0.7, 0.0, 2_100))
        'sums 450/s, 2.1 s behind, backpressured 70%'
    """
    parts = [f"{uid} {figures.per_second:,.0f}/s"]
    if figures.behind_ms is not None:
        parts.append(f"{figures.behind_ms / 1000:,.1f} s behind")
    if back_pressure(figures.held_up) != "ok":
        parts.append(f"backpressured {figures.held_up:.0%}")
    return ", ".join(parts)


def readable(size: int) -> str:
    """A number of bytes in readable form.

    Example:
        >>> [readable(size) for size in (0, 1023, 20 * 1024, 5_300_000)]
        ['0 B', '1,023 B', '20.0 KiB', '5.1 MiB']
    """
    if size < 1024:
        return f"{size:,} B"
    steps = ("KiB", "MiB", "GiB", "TiB")
    power = min(len(steps), (size.bit_length() - 1) // 10)
    return f"{size / 1024**power:,.1f} {steps[power - 1]}"
