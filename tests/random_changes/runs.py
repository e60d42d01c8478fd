"""Runs a program in processes of its own, one after the other, and sees that each ends as it shall."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.random_changes.generated import Run
from tests.random_changes.program import Described
from tidegate.backends.storage import open_storage
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.timeline import Timeline

__all__ = ["Sequence", "common", "in_flight"]

TESTS = Path(__file__).parents[1]


@dataclass
class Sequence:
    """A program with its own checkpoints and output."""

    program: Described
    directory: Path
    target: str
    place: str = ""
    """The savepoint from which the next run starts."""

    @property
    def output(self) -> Path:
        return self.directory / "out"

    def run(self, run: Run, number: int) -> dict[str, Any]:
        """One run; what it says of its result, which is nothing if it was killed or ended with a savepoint.

        Raises:
            AssertionError: it did not end as it shall.
        """
        witnesses = self.directory / f"witnesses-{number}"
        role, _, point = run.fault.partition("/")
        witness = witnesses / f"0-{point.partition('@')[0]}"
        settings = common(self.directory) | run.settings() | {"execution.target": self.target}
        if run.fault:
            settings |= {"testing.faults": run.fault, "testing.faults-dir": str(witnesses)}
        if self.place:
            settings |= {"execution.savepoint.path": self.place}
        done = self._started(settings, str(witness), run.savepoint)
        if run.fault:
            assert not Path("/proc", witness.read_text().split()[0]).exists()
        if role == "jobmanager":
            assert done.returncode == -signal.SIGKILL, done.stderr
            return {}
        assert done.returncode == 0, done.stderr
        if run.savepoint:
            self.place = json.loads(done.stdout)
            return {}
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def _started(
        self, settings: dict[str, Any], gate: str, savepoint: str
    ) -> subprocess.CompletedProcess[str]:
        # The modules of the tests, but not the folders beside them, which would hide the package.
        home = self.directory / "modules"
        home.mkdir(exist_ok=True)
        if not (home / "tests").exists():
            (home / "tests").symlink_to(TESTS)
        module = [sys.executable, "-P", "-m", "tests.random_changes.program"]
        described = json.dumps(asdict(self.program))
        return subprocess.run(
            [*module, str(self.output), described, json.dumps(settings), gate, savepoint],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**os.environ, "PYTHONPATH": str(home)},
        )


def common(directory: Path) -> dict[str, Any]:
    """Settings of every run."""
    return {
        "execution.checkpointing.interval": "15 ms",
        "state.checkpoints.dir": str(directory / "state"),
        "restart-strategy.fixed-delay.delay": "10 ms",
        "pipeline.progress": "off",
    }


def in_flight(directory: Path) -> list[str]:
    """The operators whose records are part of the newest checkpoint, since it overtook them."""
    with Timeline(open_storage(str(directory / "state")), PipelineId("random")) as timeline:
        return [operator.uid for operator in timeline.manifest(None).operators if operator.in_flight]
