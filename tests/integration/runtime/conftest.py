"""Programs as their users run them: in a process of their own, watched through their progress, ended by signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S

PROGRAMS = Path(__file__).parent / "programs"

Watch = Callable[[dict[str, Any]], bool]


@dataclass
class Running:
    """A program that runs."""

    process: subprocess.Popen[str]
    seen: list[dict[str, Any]] = field(default_factory=list)

    def until(self, watch: Watch) -> dict[str, Any]:
        """The first line of progress that `watch` waits for."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.seen.append(json.loads(line))
            if watch(self.seen[-1]):
                return self.seen[-1]
        raise AssertionError(f"the program ended first: {self.seen[-5:]}")

    def end(self) -> tuple[int, str, str]:
        """Exit code, standard output and the rest of standard error, once it has ended."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err

    def signal_group(self, number: signal.Signals) -> None:
        """What a terminal or a service manager does: every process of the program gets the signal."""
        os.killpg(self.process.pid, number)

    def result(self) -> dict[str, Any]:
        """What the program printed of its result."""
        code, out, err = self.end()
        assert code == 0, err
        result: dict[str, Any] = json.loads(out)
        return result


@dataclass
class Place:
    """A directory with a program's checkpoints and output."""

    directory: Path
    settings: dict[str, Any] = field(default_factory=dict)
    started: list[Running] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def start(self, program: str, arguments: dict[str, Any] | None = None, **settings: Any) -> Running:
        """Start a program; keyword `a__b_c` sets `a.b-c`."""
        given = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
        merged = {
            "state.checkpoints.dir": str(self.directory / "state"),
            "execution.checkpointing.interval": "50 ms",
            "pipeline.progress": "json",
            "parallelism.default": 2,
            **self.settings,
            **given,
        }
        command = [sys.executable, "-P", str(PROGRAMS / program), str(self.output), json.dumps(merged)]
        if arguments is not None:
            command.append(json.dumps(arguments))
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=self.directory,
        )
        running = Running(process)
        self.started.append(running)
        return running

    def rows(self) -> list[dict[str, Any]]:
        """Every visible record."""
        return [
            json.loads(line)
            for path in sorted(self.output.glob("part-*"))
            for line in path.read_text().splitlines()
        ]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty place; whatever still runs there at the end of the test is killed."""
    place = Place(tmp_path)
    yield place
    for running in place.started:
        if running.process.poll() is None:
            running.signal_group(signal.SIGKILL)
        with running.process:
            pass  # waits, and closes the pipes


@dataclass(frozen=True)
class Executor:
    """One of the ways to run a program on this machine."""

    name: str
    target: str
    processes: int

    @property
    def settings(self) -> dict[str, Any]:
        return {"execution.target": self.target, "parallelism.default": max(2, self.processes)}


@pytest.fixture(
    params=[
        Executor("inline", "inline", 0),
        Executor("embedded-2", "embedded", 2),
        Executor("embedded-3", "embedded", 3),
    ],
    ids=lambda executor: executor.name,
)
def executor(request: pytest.FixtureRequest) -> Executor:
    """Every executor of this machine, in turn."""
    chosen: Executor = request.param
    return chosen


@pytest.fixture(params=["heap", "filesystem", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    """Every backend, in turn."""
    chosen: str = request.param
    return chosen
