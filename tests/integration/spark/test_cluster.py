"""A standalone cluster with two workers: whatever of it dies, the output is there exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.conftest import SPARK_SETTINGS
from tests.crash.kafka_job import KafkaJob, assert_exactly_once, escaped, job_between, paid
from tests.integration.spark import pythons
from tests.integration.spark.conftest import PROGRAM, record_of, started
from tests.waiting import PATIENCE_S, until
from tidegate.testing.services import KafkaService, SparkService

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
    """A master and two workers with a core each; who kills a worker restarts it.

    Spark takes them for two machines: on one it makes no copies of slow tasks, and executors read what a dead one has shuffled.
    """
    with SparkService(workers=2) as service:
        for worker in service.workers:  # where executors find it
            shutil.copy(SPARK_SETTINGS / "java-opts", worker.directory)
        yield service


def executors(cluster: SparkService) -> list[int]:
    """The Java processes that run tasks on this cluster, and not on that of tests which run at the same time."""
    places = [(worker.directory / "work").resolve() for worker in cluster.workers]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_one = b"CoarseGrainedExecutorBackend\0--driver-url" in (process / "cmdline").read_bytes()
            if is_one and any((process / "cwd").readlink().is_relative_to(place) for place in places):
                found.append(int(process.name))
    return found


def test_a_worker_process_an_executor_and_a_worker_die_in_one_run(
    job: Any, cluster: SparkService, of_task: str
) -> None:
    job.count, job.rate = 3_000, 1_000
    job.settings["pipeline.progress"] = "json"
    job.arm(f"taskmanager-1/{of_task}")
    before = set(executors(cluster))
    with job.started(cluster.address) as process:
        job.await_settled(process, 2)
        assert not Path(f"/proc/{job.victim(of_task)}").exists()
        os.kill(min(set(executors(cluster)) - before), signal.SIGKILL)
        job.await_settled(process, 4)
        cluster.workers[0].kill()
        job.await_settled(process, 6)
        cluster.workers[0].restart()
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert json.loads(said)["records"] == job.count
    assert job.audit() == []


def test_subtasks_stay_on_the_machine_that_has_their_state(
    job: Any, cluster: SparkService, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = job.directory / "places"
    monkeypatch.setenv("TOTALS_PLACES", str(places))
    # All that a subtask gets comes from one machine, now from this one and now from the other.
    monkeypatch.setenv("TOTALS_SPLITS", "1")
    # So that nothing else is the reason where a task runs.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.locality.wait=1min pyspark-shell")
    job.count, job.settings["parallelism.default"] = 1_600, 4
    with job.started(cluster.address) as process:
        said, complaints = process.communicate(timeout=PATIENCE_S)
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
    place: Path = job.directory / "straggled"
    place.mkdir()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", SPECULATION)
    monkeypatch.setenv("TOTALS_STRAGGLER", str(place))
    job.settings["pipeline.progress"] = "json"
    job.count = 1_000
    with job.started(cluster.address) as process:
        job.await_settled(process, 2)
        assert (place / "straggler").exists(), "and it is not through: the copy was"
        (place / "go").touch()
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert json.loads(said)["restarts"] == 0
    assert job.audit() == []


@pytest.fixture
def late(
    kafka: KafkaService, cluster: SparkService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KafkaJob:
    """A job of which a task behind the exchange waits in front of the sink, so that Spark copies it."""
    place = tmp_path / "late"
    place.mkdir()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", SPECULATION)
    monkeypatch.setenv("TOTALS_LATE", str(place))
    job = job_between(kafka, paid(kafka), tmp_path)
    job.settings = {
        "execution.target": cluster.address,
        "execution.spark.epoch-records": 700,
        "pipeline.event-log": str(tmp_path / "events"),
    }
    return job


def of_totals(job: KafkaJob, ids: Iterable[str]) -> list[str]:
    """Those of the totals, and not of dead letters."""
    return [name for name in ids if name.startswith(f"totals.{escaped(job.target)}-")]


def test_a_task_whose_copy_has_won_ends_with_its_epoch_and_holds_nobody_up(late: KafkaJob) -> None:
    """The copy's records count once, whether the loser is ended while it waits in front of the sink or writes them again."""
    place = late.directory / "late"
    with started(late.command({})) as process:
        until((place / "held").exists)
        assert (place / "straggler").exists()
        assert sum(late.written().values()) > 0, "the copy has won"
        until(lambda: of_totals(late, late.left_open()), equals=[])
        (place / "go").touch()
        (place / "end").touch()
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert json.loads(said)["restarts"] == 0
    assert_exactly_once(late)


@pytest.mark.long
def test_a_job_does_not_end_before_a_copy_that_lost_and_leaves_nothing_of_it_open(late: KafkaJob) -> None:
    place, events = late.directory / "late", late.directory / "events"
    (place / "end").touch()
    with started(late.command({"execution.spark.epoch-records": 100_000})) as process:
        # All of it is read in the first epoch, and in the second one nothing.
        until(lambda: events.exists() and events.read_text().count('"settled"') == 2)
        (place / "go").touch()
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert json.loads(said)["checkpoint"] == 2
    assert_exactly_once(late)


@pytest.fixture
def half_through(job: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where two of four subtasks of the totals meet when the other two are through; each record has a random account."""
    place: Path = job.directory / "half-through"
    place.mkdir()
    monkeypatch.setenv("TOTALS_HALF_THROUGH", str(place))
    job.count = 300
    job.settings |= {"parallelism.default": 4, "pipeline.event-log": str(job.directory / "events")}
    return place


def kill_half_through(cluster: SparkService, place: Path) -> int:
    """Kill the executor of one of those that wait, which has also read; then the other one goes on.

    Those who wait hold both executors, so the first two have ended. The dead one is repeated, and for it alone what the
    dead executor had read.
    """
    waiting = [place / "subtask-2", place / "subtask-3"]
    until(lambda: all(each.exists() for each in waiting))
    readers = {int(line.split()[1]) for line in (place / "marked").read_text().splitlines()}
    victim = next(pid for pid in (int(each.read_text()) for each in waiting) if pid in readers)
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in executors(cluster))
    (place / "go").touch()
    return victim


def marked(place: Path) -> Counter[int]:
    """How often each record was given a mark."""
    return Counter(int(line.split()[0]) for line in (place / "marked").read_text().splitlines())


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_an_executor_that_dies_half_through_an_epoch_takes_its_random_records_with_it(
    job: Any, cluster: SparkService, half_through: Path, mode: str
) -> None:
    job.settings["execution.runtime-mode"] = mode
    with job.started(cluster.address) as process:
        victim = kill_half_through(cluster, half_through)
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert not Path(f"/proc/{victim}").exists()
    events = [json.loads(line) for line in (job.directory / "events").read_text().splitlines()]
    (aborted,) = [event["text"] for event in events if event["what"] == "aborted"]
    assert re.search(r"checkpoint 1: .*\[\d\] consumed other executions of .*\[0\] to .*\[3\] than", aborted)
    assert json.loads(said)["restarts"] == 0
    assert max(marked(half_through).values()) >= 3, "read, read again for one of four, and again for all"
    assert job.audit() == []
    assert len({row["mark"] for row in job.rows()}) == job.count


@pytest.mark.long
def test_an_epoch_whose_executions_nobody_compares_loses_and_doubles(
    job: Any, cluster: SparkService, half_through: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test before is worth: Spark itself is content with what it has repeated in part."""
    monkeypatch.setenv("TOTALS_BELIEVES", "yes")
    with job.started(cluster.address) as process:
        kill_half_through(cluster, half_through)
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert (json.loads(said)["state"], json.loads(said)["restarts"]) == ("finished", 0)
    assert set(marked(half_through).values()) == {1, 2}
    wrong = job.audit()
    assert any("is missing" in each for each in wrong)
    assert any("is there 2 times" in each for each in wrong)


def test_a_storage_that_executors_do_not_see_is_named_before_anything_is_read(
    job: Any, cluster: SparkService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process has a working directory of its own, so this place is another one for the driver than for executors."""
    monkeypatch.chdir(job.directory)
    job.settings["state.checkpoints.dir"] = "/proc/self/cwd/state"
    with job.started(cluster.address) as process:
        _, complaints = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 2
    assert "cannot use the checkpoint storage" in complaints
    assert "a storage that all machines share" in complaints
    assert job.rows() == []


def becoming_of(cluster: SparkService, directory: Path, *tried: Path) -> list[str]:
    """What a program comes to whose executors run each of these."""
    program = [sys.executable, "-P", str(PROGRAM.with_name("misfits.py")), cluster.address, str(directory)]
    found: list[str] = json.loads(pythons.run(*program, *tried).splitlines()[-1])
    return found


def test_executors_of_another_tidegate_are_refused_by_name_before_anything_is_read(
    cluster: SparkService, tmp_path: Path
) -> None:
    other, place = pythons.with_paths(tmp_path / "other")
    (place / "tidegate-9.9.9.dist-info").mkdir()
    (place / "tidegate-9.9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tidegate\nVersion: 9.9.9\n"
    )

    (said,) = becoming_of(cluster, tmp_path, other)

    assert said == (
        f"ConfigError: the executor on {platform.node()} ({other}) has tidegate 9.9.9; expected {metadata.version('tidegate')}, "
        "as the driver has; install the same on both"
    )
    assert list((tmp_path / "out").glob("[!.]*")) == []


@pytest.mark.long
def test_executors_without_tidegate_or_of_another_python_are_refused(
    cluster: SparkService, tmp_path: Path
) -> None:
    bare, _ = pythons.empty(tmp_path / "bare")
    other = pythons.of_another_minor()
    theirs = pythons.run(other, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()

    of_none, of_other = becoming_of(cluster, tmp_path, bare, other)

    assert of_none == (
        f"ConfigError: the executor on {platform.node()} ({bare}) cannot run tidegate: ModuleNotFoundError: No module named "
        f"'tidegate'; install tidegate[spark] {metadata.version('tidegate')} there, or ship it with the job, as docs/spark.md says"
    )
    assert re.fullmatch(
        r"ConfigError: executors on (127\.0\.0\.1|localhost)(, localhost)? run Python "
        rf"{theirs}; expected {sys.version_info.major}\.{sys.version_info.minor}, as the driver has; set PYSPARK_PYTHON to .*",
        of_other,
    ), of_other
    assert list((tmp_path / "out").glob("[!.]*")) == []


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


@pytest.mark.long
@pytest.mark.setup
def test_a_whole_environment_travels_with_the_job(cluster: SparkService, tmp_path: Path) -> None:
    python, archive = pythons.packed(tmp_path / "environment")
    module = "import sys, msgspec\ndef doubled(number):\n    return [number * 2, sys.executable, msgspec.__file__]\n"
    (tmp_path / "shipped_rules.py").write_text(module)
    shipped = ["--archives", f"{archive}#environment", "--py-files", str(tmp_path / "shipped_rules.py")]
    program = [str(PROGRAM.with_name("submitted.py")), cluster.address, str(tmp_path)]
    shutil.rmtree(python.parents[1])

    done = submitted(
        cluster,
        *shipped,
        *program,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        PYSPARK_PYTHON="./environment/bin/python",
    )

    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [row[0] for row in rows] == [2, 4, 6]
    places = {str(worker.directory / "work") for worker in cluster.workers}
    for _, executable, imported, *_ in rows:
        assert any(executable.startswith(place) for place in places)
        assert "/environment/lib/" in imported


@pytest.mark.spec("004/AX-040")
def test_as_an_application_main_and_coordinator_run_on_the_cluster(
    cluster: SparkService, rules: Path
) -> None:
    shipping = ["--conf", f"spark.files={rules}", "--conf", f"spark.submit.pyFiles={rules}"]
    program = [str(PROGRAM.with_name("submitted.py")), str(rules), cluster.address, str(rules.parent)]
    done = submitted(cluster, *shipping, *on_the_cluster(), *program)
    assert done.returncode == 0, done.stderr

    until((rules.parent / "found.json").exists)
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
    until(lambda: len(job.rows()) > 100)
    first = record_of(job).lease
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: record_of(job).status == "finished")

    assert record_of(job).lease.run != first.run
    assert job.audit() == []


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


def submitted(cluster: SparkService, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What spark-submit does."""
    return subprocess.run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.address, *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK_HOME), **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
