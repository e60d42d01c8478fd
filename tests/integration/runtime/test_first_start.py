"""The first minutes with a program that sets nothing: killed and started again, it resumes and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until

pytestmark = pytest.mark.processes

PROGRAM = """
from tidegate import FileSink, GeneratorSource, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(GeneratorSource(int, count=None, rate_per_second=100)).uid("numbers")
numbers.sink_to(FileSink("out")).uid("files")
env.execute("first")
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of the program; whatever still runs afterwards is killed."""
    (tmp_path / "job.py").write_text(PROGRAM)
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_a_program_that_is_killed_in_its_first_seconds_resumes(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    def start() -> Path:
        said = tmp_path / f"said-{len(started)}"
        with said.open("wb") as file:
            environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
            command = [sys.executable, "-P", "job.py"]
            started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=file))
        return said

    first = start()
    until(lambda: "starting without state: 'first' has no checkpoint yet" in first.read_text())
    until(lambda: bool(list(tmp_path.glob("out/part-*"))))
    started[-1].send_signal(signal.SIGKILL)
    started[-1].wait()

    second = start()
    until(lambda: "resuming from checkpoint " in second.read_text())

    assert "starting without state" not in second.read_text()
