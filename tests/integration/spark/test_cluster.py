"""A standalone cluster with two workers: whatever of it dies, the output is there exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.spark.conftest import PROGRAM, record_of
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
SPARK_HOME = Path(str(pyspark.__file__)).parent
PATIENCE_S = 180

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


def test_subtasks_stay_on_the_machine_that_has_their_state(
    job: Any, cluster: SparkService, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = job.directory / "places"
    monkeypatch.setenv("TOTALS_PLACES", str(places))
    job.count, job.settings["parallelism.default"] = 1_600, 4
    with job.started(cluster.address) as process:
        said, complaints = process.communicate(timeout=180)
    assert process.returncode == 0, complaints

    assert json.loads(said)["checkpoint"] > 4
    assert job.audit() == []
    found = {tuple(line.split(maxsplit=1)) for line in places.read_text().splitlines()}
    assert sorted(index for index, _ in found) == ["0", "1", "2", "3"]
    assert len({executor for _, executor in found}) == 2


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


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A module of the program's own, to be shipped."""
    module = "def doubled(number):\n    return [number * 2, __file__]\n"
    with zipfile.ZipFile(tmp_path / "rules.zip", "w") as shipped:
        shipped.writestr("shipped_rules.py", module)
    return tmp_path / "rules.zip"


@pytest.mark.spec("004/AX-040")
def test_in_client_mode_main_and_coordinator_run_where_the_job_is_submitted(
    cluster: SparkService, rules: Path
) -> None:
    program = [str(PROGRAM.with_name("submitted.py")), cluster.address, str(rules.parent)]
    done = submitted(cluster, "--py-files", str(rules), *program)

    assert done.returncode == 0, done.stderr
    found = json.loads((rules.parent / "found.json").read_text())
    assert [row[0] for row in found["rows"]] == [2, 4, 6]
    assert all("rules.zip/shipped_rules.py" in row[1] for row in found["rows"])
    main, *above = found["main"]
    assert os.getpid() in above
    assert workers_among(above) == []
    assert {row[2] for row in found["rows"]} == {main}, "who owns the job"
    assert main not in {row[3] for row in found["rows"]}, "who works"


@pytest.mark.spec("004/AX-040")
def test_as_an_application_main_and_coordinator_run_on_the_cluster(
    cluster: SparkService, rules: Path
) -> None:
    shipping = ["--conf", f"spark.files={rules}", "--conf", f"spark.submit.pyFiles={rules}"]
    program = [str(PROGRAM.with_name("submitted.py")), str(rules), cluster.address, str(rules.parent)]
    done = submitted(cluster, *shipping, *on_the_cluster(), *program)
    assert done.returncode == 0, done.stderr

    await_file(rules.parent / "found.json")
    found = json.loads((rules.parent / "found.json").read_text())
    assert [row[0] for row in found["rows"]] == [2, 4, 6]
    assert all("rules.zip/shipped_rules.py" in row[1] for row in found["rows"])
    main, *above = found["main"]
    assert len(workers_among(above)) == 1
    assert {row[2] for row in found["rows"]} == {main}, "who owns the job"
    assert main not in {row[3] for row in found["rows"]}, "who works"


@pytest.mark.long
def test_an_application_whose_driver_is_killed_is_started_again_and_goes_on(
    job: Any, cluster: SparkService
) -> None:
    job.count, job.rate = 2_000, 100
    settings = json.dumps(job._settings(cluster.address))
    program = [str(PROGRAM), "", str(job.output), str(job.count), settings, str(job.rate)]
    done = submitted(cluster, "--supervise", *on_the_cluster(), *program)
    assert done.returncode == 0, done.stderr
    await_until(lambda: len(job.rows()) > 100)
    first = record_of(job).lease
    os.kill(first.pid, signal.SIGKILL)
    await_until(lambda: record_of(job).status == "finished")

    assert record_of(job).lease.run != first.run
    assert job.audit() == []


def await_file(path: Path) -> None:
    await_until(path.exists)


def await_until(come: Callable[[], object]) -> None:
    until = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not come():
        assert SYSTEM_CLOCK.monotonic() < until
        SYSTEM_CLOCK.sleep(0.1)


def workers_among(pids: Iterable[int]) -> list[int]:
    """Those of these processes that are workers of a cluster."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if b"spark.deploy.worker.Worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def on_the_cluster() -> list[str]:
    """Have a worker run the program's own process: for a master that takes Java programs alone, Spark's runner of Python."""
    (jar,) = (SPARK_HOME / "jars").glob("spark-core_*.jar")
    runner = ["--deploy-mode", "cluster", "--class", "org.apache.spark.deploy.PythonRunner"]
    return [*runner, "--conf", f"spark.pyspark.python={sys.executable}", "--driver-memory", "512m", str(jar)]


def submitted(cluster: SparkService, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What spark-submit does."""
    return subprocess.run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.address, *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK_HOME)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
