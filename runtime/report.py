"""How a running job shows itself: a live line in a terminal, plain lines or JSON elsewhere."""

from __future__ import annotations

import dataclasses
from typing import TextIO

import msgspec

from tidegate.clock import Clock
from tidegate.runtime.options import Progress
from tidegate.runtime.status import RunStatus, Snapshot

__all__ = ["Reporter"]

_LIVE_S, _PLAIN_S, _JSON_S = 0.2, 10.0, 0.2


class Reporter:
    """Writes to `out` what a run is doing, as often as the form of showing it bears."""

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
        """One line for people."""
        if self._form == "json":
            self._write(msgspec.json.encode({"job": self._name, "said": text}).decode())
        elif self._form != "off":
            self._write(f"\r\x1b[K{text}" if self._live else text)

    def show(self, status: RunStatus) -> None:
        """Show the run if it is time to, or if its state changed."""
        for event in status.events[self._told :]:
            if event.what in ("restart", "aborted"):
                self.say(f"{self._name}: {event.what}: {event.text}")
        self._told = len(status.events)
        now = self._clock.monotonic()
        changed = status.state != self._state
        if self._form == "off" or (now < self._next and not changed):
            return
        self._next, self._state = now + self._every_s, status.state
        snapshot = status.snapshot()
        if self._form == "json":
            self._write(msgspec.json.encode({"job": self._name, **dataclasses.asdict(snapshot)}).decode())
        elif self._live:
            self._out.write(f"\r\x1b[K{self._line(snapshot)}" + "\n" * changed)
            self._out.flush()
        else:
            self._write(self._line(snapshot))

    def _line(self, snapshot: Snapshot) -> str:
        age = f", settled {snapshot.settled_age_s:.1f} s ago" if snapshot.settled_age_s is not None else ""
        restarts = f", {snapshot.restarts} restarts" if snapshot.restarts else ""
        held_up = [subtask for subtask, flow in snapshot.flow.items() if flow.back_pressure == "high"]
        pressure = f", held up: {', '.join(held_up)}" if held_up else ""
        return (
            f"{self._name}: {snapshot.state}, {snapshot.records:,} records, {snapshot.per_second:,.0f}/s, "
            f"{snapshot.settled} checkpoints{age}{restarts}{pressure}"
        )

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()
