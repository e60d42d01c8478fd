"""Killed processes: sink processes that the kit kills with `kill -9` at a stage of an epoch or at a step of a commit.

A commit is traced inside its process, so a sink needs no support for it: a step is a call of C code that may reach an
external system (a system call, a socket, a database client), or a line of the connector's code. The process is killed
directly before a step.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

import cloudpickle
import msgspec

from tidegate.elements import Batch
from tidegate.testing.sink_rig import SinkRig, SinkTarget
from tidegate.twophase.spi import Committable

__all__ = ["Killed", "SinkProcesses", "Stage", "run_fork_server", "sink_processes"]

Stage = Literal["open", "write", "prepare", "commit", "abort"]

_INSIDE: Final = {
    *(
        "_abc",
        "_asyncio",
        "_codecs",
        "_collections",
        "_contextvars",
        "_functools",
        "_hashlib",
        "_json",
        "_operator",
    ),
    *(
        "_random",
        "_sre",
        "_struct",
        "_thread",
        "_weakref",
        "_weakrefset",
        "_xxhash",
        "binascii",
        "builtins",
        "collections",
    ),
    *("itertools", "math", "msgspec", "re", "sys", "time", "xxhash", "zlib"),
}
"""Top-level names of C modules whose calls have no effect outside of the process."""

_LIBRARIES: Final = tuple(sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib"))


@dataclass(frozen=True, slots=True)
class Killed:
    """The result of a killed process."""

    work: Committable | None
    """The committable that it had prepared."""
    steps: tuple[str, ...] = ()
    """All steps of its commit, if it was killed after the commit."""

    @property
    def prepared(self) -> Committable:
        """The committable that it had prepared; fails if it was killed before."""
        assert self.work is not None, "the process was killed before it had prepared anything"
        return self.work


@dataclass(frozen=True)
class _Order:
    """The task of a process until it is killed."""

    stage: Stage
    checkpoint: int = 1
    step: int | None = None
    """The step of the commit before which it is killed; None: after the commit."""


class SinkProcesses:
    """A fork server: a process that has loaded the sink and forks a process for each kill."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def killed(self, stage: Stage, checkpoint: int = 1, step: int | None = None) -> Killed:
        """Write an epoch in a new process, which is killed after `stage` or before a step of its commit."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([stage, checkpoint, step]) + "\n")
        self._process.stdin.flush()
        work, steps = None, list[str]()
        while (said := self._said())[0] != "ended":
            if said[0] == "work":
                work = msgspec.msgpack.decode(base64.b64decode(said[1]), type=Committable)
            else:
                steps.append(said[1])
        assert said[1] == f"{-signal.SIGKILL}", (
            f"the process to be killed at stage {stage!r} ended by itself; got exit code {said[1]}; expected it "
            "to run until then; its traceback is in the captured stderr"
        )
        return Killed(work, tuple(steps))

    def _said(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that loads the sink ended; its traceback is in the captured stderr"
        said: list[str] = json.loads(line)
        return said


@contextmanager
def sink_processes(target: SinkTarget) -> Iterator[SinkProcesses]:
    """Start the process that loads the sink of a target."""
    rig = SinkRig(replace(target, read_committed=list, refusing=None))
    order = base64.b64encode(_portable(rig)).decode()
    program = "from tidegate.testing.killed_process import run_fork_server; run_fork_server()"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(order + "\n")
        try:
            yield SinkProcesses(process)
        finally:
            process.kill()


def run_fork_server() -> None:
    """Entry point of the process that loads the sink: fork a process for each order and report how it ended."""
    rig: SinkRig = cloudpickle.loads(base64.b64decode(sys.stdin.readline()))
    while line := sys.stdin.readline():
        # The fork happens before the sink opens connections or starts threads, because a description does no I/O.
        child = os.fork()
        if not child:
            _work_and_die(rig, _Order(*json.loads(line)))
        _, status = os.waitpid(child, 0)
        _say("ended", str(os.waitstatus_to_exitcode(status)))


def _work_and_die(rig: SinkRig, order: _Order) -> None:
    try:
        _work(rig, order)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _work(rig: SinkRig, order: _Order) -> None:
    writer = rig.writer()
    if order.stage != "open":
        writer.write(Batch(list(rig.target.records)))
    if order.stage in ("open", "write"):
        _die()
    work = rig.prepare(writer, order.checkpoint)
    assert work is not None, "records were written but nothing was prepared"
    _say("work", base64.b64encode(msgspec.msgpack.encode(work)).decode())
    # The committer is not closed, as in a crash.
    with rig.committer() as committer:
        if order.stage == "abort":
            committer.abort_except(())
        elif order.stage == "commit":
            with _watched(rig.target.sink, order.step) as steps:
                committer.commit([work])
            for step in steps if order.step is None else ():
                _say("step", step)
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _say(kind: str, text: str) -> None:
    os.write(1, (json.dumps([kind, text]) + "\n").encode())


@contextmanager
def _watched(sink: Any, deadly: int | None) -> Iterator[list[str]]:
    """Record every step of the block, in any Python thread, and kill the process before the step `deadly`."""
    steps: list[str] = []
    own = type(sink).__module__.partition(".")[0]

    def step(frame: FrameType, what: str) -> None:
        if len(steps) == deadly:
            _die()
        name = Path(frame.f_code.co_filename).name
        steps.append(f"{what} at {name}:{frame.f_lineno} in {frame.f_code.co_name}")

    def calls(frame: FrameType, event: str, called: Any) -> None:
        imports = frame.f_code.co_filename.startswith("<frozen importlib")
        if event == "c_call" and not imports and (what := _outside(called)):
            step(frame, what)

    def lines(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if event == "line":
            step(frame, "a line")
        return lines if _is_own(frame, own) else None

    for module in (threading, sys):
        module.settrace(lines)
        module.setprofile(calls)
    try:
        yield steps
    finally:
        for module in (sys, threading):
            module.setprofile(None)
            module.settrace(None)


def _outside(called: Any) -> str | None:
    """The name of a C function that may have an effect outside of the process; None for others."""
    owner = getattr(called, "__self__", None)
    module = called.__module__ if owner is None or hasattr(owner, "__spec__") else type(owner).__module__
    first = (module or "builtins").partition(".")[0]
    return None if first in _INSIDE else called.__qualname__


def _is_own(frame: FrameType, package: str) -> bool:
    """Whether the code is the connector's: in the sink's package, or in no library."""
    first = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if first in ("tidegate", "contextlib"):
        return False
    return first == package or not frame.f_code.co_filename.startswith(("<", *_LIBRARIES))


def _portable(rig: SinkRig) -> bytes:
    """Pickle a rig, with the sink's class by value if another process may not be able to import its module."""
    module = sys.modules[type(rig.target.sink).__module__]
    if module.__name__.startswith("tidegate."):
        data: bytes = cloudpickle.dumps(rig)
        return data
    cloudpickle.register_pickle_by_value(module)
    try:
        data = cloudpickle.dumps(rig)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return data
