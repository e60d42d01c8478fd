from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.waiting import PATIENCE_S
from tidegate.clock import ManualClock
from tidegate.errors import InternalError, JobFailedError, UnavailableError
from tidegate.runtime.cli.demo.command import _job_command
from tidegate.runtime.cli.demo.process import JobProcess
from tidegate.runtime.cli.demo.scenario import Plan, Scenario
from tidegate.runtime.cli.demo.screen import PlainScreen
from tidegate.runtime.cli.demo.workspace import Workspace, claim
from tidegate.runtime.status import RunStatus

pytestmark = pytest.mark.crash

RECORDS: Final = 30_000


def demo(directory: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "tidegate.runtime.cli.main", "demo", "--directory", str(directory)]
    return subprocess.Popen(
        [*command, "--records", str(RECORDS), "--seed", "1", *options],
        cwd=directory.parent,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def play(directory: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Return code, what was printed, the report."""
    with demo(directory, *options) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said, json.loads((directory / "report.json").read_text())


def written(directory: Path) -> list[int]:
    """The numbers of the payments in the output, by a reader that knows nothing of the audit."""
    lines = [
        line for file in (directory / "output").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    return sorted(json.loads(line)["id"] for line in lines)


def group_is_gone(group: int) -> bool:
    """Whether every process of the group is dead or dying; one that nobody has collected yet is dead all the same."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, process_group = entry.read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == group and state != "Z" and not ends(int(entry.parent.name)):
                return False
    return True


def test_a_job_killed_three_times_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    code, said, report = play(tmp_path / "demo")

    assert code == 0, said
    assert report["passed"]
    assert report["findings"] == []
    assert [kill["code"] for kill in report["kills"]] == [-9, -9, -9]
    assert all(kill["recovery_s"] > 0 for kill in report["kills"])
    assert all(group_is_gone(kill["pid"]) for kill in report["kills"])
    assert report["checkpoints"] >= 4
    ids = written(tmp_path / "demo")
    assert len(ids) == len(set(ids)) == report["records_out"] == RECORDS - report["declined"]
    assert f"nothing lost, nothing twice: {RECORDS:,} records in, {len(ids):,} out" in said
    assert said.count("the same command again: it resumes from its newest checkpoint") == 3
    assert (tmp_path / "demo" / "timeline.svg").read_text().count(">kill -9<") == 3


def test_sabotage_ends_red_and_names_both_records(tmp_path: Path) -> None:
    code, said, report = play(tmp_path / "demo", "--sabotage")

    assert code == 1, said
    assert not report["passed"]
    assert report["damage"] == {"lost": 1, "doubled": 1}
    dropped, doubled = report["sabotage"]["dropped"], report["sabotage"]["doubled"]
    assert {(each["kind"], each["id"]) for each in report["findings"]} == {
        ("lost", dropped),
        ("doubled", doubled),
    }
    ids = written(tmp_path / "demo")
    assert (ids.count(dropped), ids.count(doubled), len(ids)) == (0, 2, RECORDS - report["declined"])
    assert f"SABOTAGE, on purpose: record {dropped:,} is dropped from the output" in said
    assert f"record {dropped:,} is lost" in said
    assert f"record {doubled:,} is duplicated" in said


@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)],
    ids=["ctrl-c", "sigterm", "sigkill"],
)
def test_a_demo_that_ends_takes_its_job_with_it(tmp_path: Path, number: int, expected: int) -> None:
    with demo(tmp_path / "demo") as process:
        assert process.stdout is not None
        started = next(match for line in process.stdout if (match := re.search(r"\(pid (\d+)\)", line)))
        job = int(started[1])
        next(line for line in process.stdout if "running" in line)

        process.send_signal(number)
        process.stdout.read()

    assert process.returncode == expected
    if number == signal.SIGKILL:
        assert ends(job), "it does when it next speaks"
    assert group_is_gone(job)


def ends(pid: int) -> bool:
    """Whether a process ends soon: closed files are seen before the process is."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([handle], [], [], PATIENCE_S)
    os.close(handle)
    return bool(ended)


def parent(tmp_path: Path, *, session: bool, death_s: float) -> tuple[JobProcess, int]:
    """A process that has a child for a minute, and the child's number."""
    report = msgspec.json.encode(RunStatus(ManualClock()).snapshot()).decode()
    program = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen(['sleep', '60'], start_new_session={session})\n"
        f"print(child.pid, flush=True); print({report!r}, file=sys.stderr, flush=True); child.wait()"
    )
    log = tmp_path / "job.log"
    job = JobProcess([sys.executable, "-c", program], tmp_path, log, death_s)
    assert job.receive(20.0) is not None
    return job, int(log.read_text().split()[0])


def test_a_kill_reaches_the_children_of_the_job(tmp_path: Path) -> None:
    job, child = parent(tmp_path, session=False, death_s=10.0)

    assert os.getpgid(child) == job.pid
    assert job.kill() == -9
    assert group_is_gone(job.pid)
    assert not job.running


def test_a_child_that_survives_a_kill_is_noticed(tmp_path: Path) -> None:
    job, child = parent(tmp_path, session=True, death_s=0.5)

    try:
        with pytest.raises(InternalError, match=r"a child of the killed job \(pid \d+\) is still alive"):
            job.kill()
    finally:
        os.kill(child, signal.SIGKILL)


def scenario_in(workspace: Workspace, clock: ManualClock) -> Scenario:
    plan = Plan(1_000, 1)
    return Scenario(plan, workspace, PlainScreen(sys.stdout), clock, _job_command(plan, workspace))


def test_a_job_that_fails_ends_the_demo_and_the_log_is_named(tmp_path: Path) -> None:
    with claim(tmp_path / "demo") as workspace:
        (workspace.root / "tidegate.toml").write_text("no-such-setting = 1")
        scenario = scenario_in(workspace, ManualClock())

        with pytest.raises(
            JobFailedError, match=r"the demo's job ended with exit code 2; its output is in .*job.log"
        ):
            scenario.play()

        assert "no-such-setting" in workspace.log.read_text()


class HurriedClock(ManualClock):
    """A minute passes whenever somebody looks."""

    def monotonic(self) -> float:
        self.advance(60_000)
        return super().monotonic()


def test_a_job_that_is_too_slow_is_ended(tmp_path: Path) -> None:
    with claim(tmp_path / "demo") as workspace:
        scenario = scenario_in(workspace, HurriedClock())

        with pytest.raises(
            UnavailableError, match=r"the demo has not finished after .* s, expected about 15 s"
        ):
            scenario.play()
