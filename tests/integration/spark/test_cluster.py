"""A standalone cluster with two workers: whatever of it dies, the output is there exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.conftest import PROGRAM
from tidegate.clock import SYSTEM_CLOCK
from tidegate.testing.services import SparkService

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.crash]

DRIVER = [
    "checkpoint.after-swap@2",
    "commit.between@2",
    "checkpoint.before-metadata@2",
    "checkpoint.after-metadata@2",
    "checkpoint.before-swap@2",
    "commit.before@2",
    "commit.after@2",
    "checkpoint.before-settled@2",
    "checkpoint.after-settled@2",
]
TASK = [
    "sink.after-prepare",
    "task.after-batch",
    "task.before-snapshot",
    "task.after-snapshot",
    "task.before-ack",
    "sink.before-flush",
    "sink.after-flush",
]
QUICK = 1
"""How many of each are tried here unless there is time; on a local master others are."""

SPECULATION = (
    "--conf spark.speculation=true --conf spark.speculation.interval=100ms --conf spark.speculation.quantile=0.1 "
    "--conf spark.speculation.multiplier=1.1 --conf spark.speculation.minTaskRuntime=100ms "
    "--conf spark.python.task.killTimeout=60s pyspark-shell"
)
"""A task that is slow is run a second time, and who loses goes on to its end."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    points = {"of_driver": DRIVER, "of_task": TASK}
    long = metafunc.config.getoption("--profile") == "long"
    for name in points.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, points[name] if long else points[name][:QUICK])


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkService]:
    """A master and two workers with a core each; who kills a worker restarts it."""
    with SparkService(workers=2) as service:
        yield service


def executors() -> list[int]:
    """The Java processes that run tasks of this cluster's user."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"CoarseGrainedExecutorBackend\0--driver-url" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def test_a_worker_process_an_executor_and_a_worker_die_in_one_run(
    job: Any, cluster: SparkService, of_task: str
) -> None:
    job.count, job.rate = 3_000, 1_000
    job.settings["pipeline.progress"] = "json"
    job.arm(f"taskmanager-1/{of_task}")
    before = set(executors())
    with job.started(cluster.address) as process:
        job.await_settled(process, 2)
        assert not Path(f"/proc/{job.victim(of_task)}").exists()
        os.kill(min(set(executors()) - before), signal.SIGKILL)
        job.await_settled(process, 4)
        cluster.workers[0].kill()
        job.await_settled(process, 6)
        cluster.workers[0].restart()
        said, complaints = process.communicate(timeout=180)
    assert process.returncode == 0, complaints

    assert json.loads(said)["records"] == job.count
    assert job.audit() == []


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_a_driver_that_is_killed_leaves_tasks_that_are_in_nobodys_way(
    job: Any, cluster: SparkService, of_driver: str
) -> None:
    job.kill_at(of_driver, target=cluster.address)
    assert job.audit() != []

    result = job.run()

    assert result.resumed_from is not None
    assert job.audit() == []


@pytest.mark.long
def test_a_task_that_lost_against_its_copy_may_write_late(
    job: Any, cluster: SparkService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", SPECULATION)
    monkeypatch.setenv("TOTALS_STRAGGLER", str(job.directory / "straggled"))
    with job.started(cluster.address) as process:
        said, complaints = process.communicate(timeout=180)
        assert process.returncode == 0, complaints
        until = SYSTEM_CLOCK.monotonic() + 60
        while not (job.directory / "straggled-and-over").exists() and SYSTEM_CLOCK.monotonic() < until:
            SYSTEM_CLOCK.sleep(0.05)

    assert json.loads(said)["restarts"] == 0
    assert (job.directory / "straggled").exists()
    assert job.audit() == []


def test_a_storage_that_executors_do_not_see_is_named_before_anything_is_read(
    job: Any, cluster: SparkService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process has a working directory of its own, so this place is another one for the driver than for executors."""
    monkeypatch.chdir(job.directory)
    job.settings["state.checkpoints.dir"] = "/proc/self/cwd/state"
    with job.started(cluster.address) as process:
        _, complaints = process.communicate(timeout=120)

    assert process.returncode == 1
    assert "cannot use the checkpoint storage" in complaints
    assert "a storage that all machines share" in complaints
    assert job.rows() == []


def test_spark_submit_ships_the_modules_of_a_program_in_a_zip(cluster: SparkService, tmp_path: Path) -> None:
    module = "def doubled(number):\n    return [number * 2, __file__]\n"
    with zipfile.ZipFile(tmp_path / "rules.zip", "w") as shipped:
        shipped.writestr("shipped_rules.py", module)

    done = submitted(cluster, tmp_path / "rules.zip")

    assert done.returncode == 0, done.stderr
    doubled = json.loads(done.stdout.splitlines()[-1])
    assert [number for number, _ in doubled] == [2, 4, 6]
    assert all("rules.zip/shipped_rules.py" in place for _, place in doubled)


def submitted(cluster: SparkService, shipped: Path) -> subprocess.CompletedProcess[str]:
    """What spark-submit does with the program, in client mode."""
    home = Path(str(pyspark.__file__)).parent
    command = [str(home / "bin" / "spark-submit"), "--master", cluster.address, "--py-files", str(shipped)]
    return subprocess.run(
        [*command, str(PROGRAM.with_name("submitted.py")), cluster.address],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)},
        cwd=shipped.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
