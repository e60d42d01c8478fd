"""Fault injection: named crash points at which a test kills a process.

A point costs one comparison while nothing is armed. An armed point writes a witness file before it triggers, so a
test can prove that the process died there, and triggers only once even if the job restarts.

Example:
    >>> point("checkpoint.before-swap")  # nothing armed: nothing happens
    >>> parse("sink.after-prepare@2")
    (Fault(point='sink.after-prepare', hit=2, role='', action='kill'),)
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, cast, get_args

from tidegate.errors import ConfigError

__all__ = ["POINTS", "Fault", "arm", "disarm", "parse", "point"]

POINTS = (
    "bundle.before-finish",
    "task.after-batch",
    "timers.after-piece",
    "task.before-snapshot",
    "task.after-snapshot",
    "task.before-ack",
    "base.before-upload",
    "base.after-upload",
    "sink.before-flush",
    "sink.after-flush",
    "sink.after-prepare",
    "checkpoint.before-metadata",
    "checkpoint.after-metadata",
    "checkpoint.before-swap",
    "checkpoint.after-swap",
    "commit.before",
    "commit.between",
    "commit.after",
    "checkpoint.before-settled",
    "checkpoint.after-settled",
    "savepoint.before-complete",
    "restore.before-settle",
    "restore.after-settle",
    "restore.before-sweep",
    "abort.before",
)
"""Every step of the protocol at which a process may die, in the order a checkpoint passes them."""

Action = Literal["kill", "raise", "stop"]
"""`stop` is SIGSTOP: the process does nothing until SIGCONT."""


class InjectedFaultError(RuntimeError):
    """Raised by a fault with the action `raise`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that triggers at the `hit`-th pass of `point` in a process whose role starts with `role`."""

    point: str
    hit: int = 1
    role: str = ""
    action: Action = "kill"


class _Armed:
    def __init__(self, faults: tuple[Fault, ...], role: str, witnesses: Path) -> None:
        self._faults = faults
        self._role = role
        self._witnesses = witnesses
        self._passed: Counter[str] = Counter()

    def pass_by(self, name: str) -> None:
        self._passed[name] += 1
        for number, fault in enumerate(self._faults):
            if fault.point == name and fault.hit == self._passed[name] and self._role.startswith(fault.role):
                self._strike(number, fault)

    def _strike(self, number: int, fault: Fault) -> None:
        witness = self._witnesses / f"{number}-{fault.point}"
        try:
            handle = os.open(witness, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return
        os.write(handle, f"{os.getpid()} {self._role}\n".encode())
        os.fsync(handle)
        os.close(handle)
        if fault.action == "raise":
            raise InjectedFaultError(f"injected at {fault.point}")
        os.kill(os.getpid(), signal.SIGKILL if fault.action == "kill" else signal.SIGSTOP)


_armed: _Armed | None = None


def point(name: str) -> None:
    """Pass a crash point: trigger its fault if it is armed."""
    if _armed is not None:
        _armed.pass_by(name)


def arm(faults: tuple[Fault, ...], role: str, witnesses: Path) -> None:
    """Arm `faults` in this process, known as `role`; witness files go to `witnesses`."""
    global _armed
    witnesses.mkdir(parents=True, exist_ok=True)
    _armed = _Armed(faults, role, witnesses) if faults else None


def disarm() -> None:
    """Disarm all faults of this process."""
    global _armed
    _armed = None


def parse(text: str) -> tuple[Fault, ...]:
    """Read `[role/]point[@hit][!action]`, separated by commas.

    Raises:
        ConfigError: a point or action that does not exist.
    """
    return tuple(_parse_one(part.strip()) for part in text.split(",") if part.strip())


def _parse_one(text: str) -> Fault:
    rest, _, action = text.partition("!")
    rest, _, hit = rest.partition("@")
    role, _, name = rest.rpartition("/")
    if name not in POINTS:
        near = get_close_matches(name, POINTS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown crash point {name!r}{hint}")
    if action and action not in get_args(Action):
        raise ConfigError(
            f"crash point {name!r}: unknown action {action!r}; expected one of {', '.join(get_args(Action))}"
        )
    if hit and not hit.isdigit():
        raise ConfigError(f"crash point {name!r}: hit is {hit!r}; expected a number")
    return Fault(name, int(hit or 1), role, cast("Action", action or "kill"))
