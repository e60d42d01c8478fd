"""Jobs in processes of their own, started and commanded by `tidegate`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.integration.runtime.conftest import PROGRAMS
from tests.waiting import until
from tidegate.runtime.cli.main import main
from tidegate.runtime.control.jobs import known_jobs

pytestmark = pytest.mark.crash

PROGRAM = str(PROGRAMS / "counting.py")


@dataclass(frozen=True)
class Tidegate:
    """Commands, given in this process; the jobs they start are processes of their own."""

    directory: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *command: str | Path) -> tuple[int, str, str]:
        code = main([str(part) for part in command])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def told(self, *command: str | Path) -> Any:
        """What a command says as JSON."""
        code, out, err = self(*command, "--json")
        assert code == 0, err
        return json.loads(out)

    def rows(self, output: str) -> list[tuple[int, int]]:
        """Each visible number with the count at it, in the order of numbers."""
        files = (self.directory / output).glob("part-*")
        words = [json.loads(line).split() for path in files for line in path.read_text().splitlines()]
        return sorted((int(number), int(count)) for number, count in words)


@pytest.fixture
def tidegate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tidegate]:
    """Commands in an empty directory; jobs that still run afterwards are killed."""
    monkeypatch.chdir(tmp_path)
    yield Tidegate(tmp_path, capsys)
    for job in known_jobs():
        os.killpg(job.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def running(command: list[str], out: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the block."""
    process = subprocess.Popen(command, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.spec("002/AX-63")
@pytest.mark.parametrize(
    "executor", [("inline", 2), ("embedded", 2), ("embedded", 3)], ids=["inline", "embedded-2", "embedded-3"]
)
def test_run_s_with_the_path_of_a_retained_checkpoint_resumes_the_jobs_state(
    tidegate: Tidegate, executor: tuple[str, int]
) -> None:
    target, parallelism = executor
    where = ("--on", target, "-p", str(parallelism))
    code, run, err = tidegate("run", "-d", *where, PROGRAM, "first", "everything")
    assert (code, len(run.strip())) == (0, 16), err
    until(lambda: len(tidegate.rows("first")) >= 10)
    job = tidegate.told("info", "counting")
    assert (job["run"], job["target"], job["state"]) == (run.strip(), target, "running")
    assert job["process"]["pid"] != os.getpid()
    tidegate("stop", run.strip()[:8])
    done = tidegate.rows("first")
    assert done == [(number, number + 1) for number in range(len(done))]

    newest = max(
        Path(job["root"], job["run"]).glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:])
    )
    heir = ("-D", "pipeline.id=heir")
    assert tidegate("run", "-d", *where, *heir, "-s", newest, PROGRAM, "second", "everything")[0] == 0
    until(lambda: tidegate.rows("second"))
    tidegate("stop", "heir")

    resumed = tidegate.rows("second")
    assert resumed == [(number, number + 1) for number in range(len(done), len(done) + len(resumed))]


def test_a_restart_is_a_new_run_in_the_same_process_that_goes_on_where_the_old_one_was(
    tidegate: Tidegate,
) -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        "tidegate.runtime.cli.main",
        "run",
        "--on",
        "inline",
        "--fresh",
        PROGRAM,
    ]
    log = tidegate.directory / "log"
    with log.open("wb") as out, running([*command, "out", "everything"], out) as process:
        until(lambda: tidegate.rows("out"))
        before = tidegate.told("info", "counting")

        told = tidegate.told("restart", "counting")

        after = tidegate.told("info", "counting")
        assert (told["stopped"], told["job"]) == (before["run"], after["run"])
        assert after["process"]["pid"] == before["process"]["pid"] == process.pid
        assert after["run"] != before["run"]
        written = len(tidegate.rows("out"))
        until(lambda: len(tidegate.rows("out")) > written)
        assert tidegate("cancel", "counting")[0] == 0
        assert process.wait(30) == 1, "nobody who waits for a result has one"

    rows = tidegate.rows("out")
    assert rows == [(number, number + 1) for number in range(len(rows))], "--fresh held for the first start"
    assert "tidegate: job 'counting' was cancelled" in log.read_text()


def test_a_killed_job_is_listed_no_more_and_its_pipeline_is_known_to_have_been_killed(
    tidegate: Tidegate,
) -> None:
    tidegate("run", "-d", "--on", "inline", PROGRAM, "out", "everything")
    until(lambda: tidegate.rows("out"))
    (job,) = tidegate.told("list")
    assert [each["status"] for each in tidegate.told("pipelines", "list")] == ["running"]

    os.killpg(job["process"]["pid"], signal.SIGKILL)
    # One that is about to die answers no more, and is not listed; only one that is dead is forgotten.
    until(lambda: not tidegate.told("list") and not Path(job["socket"]).parent.exists())

    (pipeline,) = tidegate.told("pipelines", "list")
    assert (pipeline["pipeline"], pipeline["status"], pipeline["run"]) == ("counting", "killed", job["run"])
    code, _, err = tidegate("stop", job["run"])
    assert (code, err.split(";")[0]) == (
        2,
        f"tidegate: this user runs no job '{job['run']}' on this machine",
    )


@pytest.mark.parametrize(
    ("settings", "what", "code", "message"),
    [((), "nothing", 7, "there is nothing to count"), (("-p", "x"), "everything", 2, "parallelism.default")],
    ids=["of its own accord", "wrong use"],
)
def test_a_program_that_ends_before_it_is_in_the_background_says_what_it_would_have_said(
    tidegate: Tidegate, settings: tuple[str, ...], what: str, code: int, message: str
) -> None:
    got, out, err = tidegate("run", "-d", "--on", "inline", *settings, PROGRAM, "out", what)

    assert (got, out) == (code, "")
    assert message in err
