"""Kills at moments nobody chose, a broker that goes away, transactions that run out: the output on Kafka stays exact.

A transaction that the broker gave up after it was decided is written again if nothing of its checkpoint is visible, and
stops the job if something is.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from tests.crash.kafka_job import KafkaJob, assert_exactly_once, job_between, paid
from tests.crash.programs import kafka_totals
from tests.waiting import PATIENCE_S, until
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing.services import KafkaService
from tidegate.testing.services.kafka import SOON_BACK

pytestmark = [pytest.mark.crash, pytest.mark.service]

SOON_MS = 4_000
"""When transactions run out that shall: later than a checkpoint follows another, sooner than patience ends."""
QUICK, LONG = (1,), tuple(range(1, 7))
FAIR = {"restart-strategy.fixed-delay.attempts": 20}


@pytest.fixture(scope="module")
def brittle() -> Iterator[KafkaService]:
    """A broker that may be killed, and looks for transactions that ran out more often than others do."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with KafkaService(settings=SOON_BACK | settings) as service:
        yield service


@pytest.fixture(autouse=True)
def carried_along() -> Iterator[None]:
    """Workers cannot import the program."""
    cloudpickle.register_pickle_by_value(kafka_totals)
    yield
    cloudpickle.unregister_pickle_by_value(kafka_totals)


@pytest.fixture
def job(brittle: KafkaService, tmp_path: Path) -> KafkaJob:
    return job_between(brittle, paid(brittle), tmp_path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        long = metafunc.config.getoption("--profile") == "long"
        metafunc.parametrize("seed", LONG if long else QUICK)


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes below that have none below themselves."""
    parents = dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            parents[int(stat.parent.name)] = int(parent)
    family = {process.pid}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sorted(family - {process.pid} - set(parents.values()))


class Misfortune:
    """Strikes a running job, which is started again if that was its end.

    Args:
        job: Whom to strike.
        broker: What it depends on.
        chance: What decides when and whom.
    """

    def __init__(self, job: KafkaJob, broker: KafkaService, chance: random.Random) -> None:
        self._job = job
        self._broker = broker
        self._chance = chance
        self._process: subprocess.Popen[bytes] | None = None

    def strike(self, whom: str) -> None:
        """Wait for some more output, then kill."""
        process = self._process = self._running()
        due = self._job.appended() + self._chance.randint(1, 700)
        until(lambda: process.poll() is not None or self._job.appended() >= due)
        if whom == "broker":
            self._broker.kill()
            self._broker.restart()
        elif whom == "worker":
            for pid in self._chance.sample(workers := workers_of(process), min(1, len(workers))):
                os.kill(pid, signal.SIGKILL)
        else:
            process.kill()
            process.wait(PATIENCE_S)

    def end(self) -> int:
        """Let the job come to its end."""
        return self._running().wait(PATIENCE_S)

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and (self._process.poll() is None or self._process.returncode == 0):
            return self._process
        with (self._job.directory / "log").open("ab") as log:
            return subprocess.Popen(self._job.command(FAIR), stdout=log, stderr=log)


def test_a_job_struck_at_random_with_its_broker_loses_and_doubles_nothing(
    job: KafkaJob, brittle: KafkaService, seed: int
) -> None:
    chance = random.Random(seed)
    whom = ["coordinator", "worker", "broker"] * (1 if seed in QUICK else 3)
    chance.shuffle(whom)
    misfortune = Misfortune(job, brittle, chance)
    try:
        for each in whom:
            misfortune.strike(each)
        ended = misfortune.end()
    finally:
        misfortune.close()

    assert ended == 0, (job.directory / "log").read_text()[-3_000:]
    assert_exactly_once(job)


def test_a_job_goes_from_two_to_three_to_one_by_savepoints_and_loses_and_doubles_nothing(
    job: KafkaJob, tmp_path: Path
) -> None:
    brokers, topics = job.arguments
    place = None
    for parallelism in (2, 3, 1):
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "state.checkpoints.dir": str(tmp_path / "state"),
                "parallelism.default": parallelism,
                "execution.checkpointing.interval": "100 ms",
                "execution.savepoint.path": place,
                "pipeline.progress": "off",
            }
        )
        # Slow enough that there is something left for each.
        kafka_totals.build(env, brokers, topics, job.rate if parallelism == 1 else 200.0)
        before, client = job.appended(), env.execute_async("totals")
        if parallelism > 1:
            until(lambda before=before: job.appended() > before + 50)  # type: ignore[misc]  # of this round
            place = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE_S)
        result = client.get_job_execution_result().result(PATIENCE_S)

    assert result.state == "finished"
    assert_exactly_once(job)


def kill_with_work_decided(job: KafkaJob) -> None:
    """Die between decision and commit, as often as it takes until there was something to commit."""
    for _ in range(20):
        shutil.rmtree(job.witnesses, ignore_errors=True)
        job.kill_at("checkpoint.after-swap@5")
        if job.unsettled():
            return
    pytest.fail("no checkpoint ever had work")


def test_what_ran_out_before_its_commit_is_written_again_from_the_last_settled_checkpoint(
    job: KafkaJob,
) -> None:
    brokers, topics = job.arguments
    source, dead, target = topics.split(",")
    job.arguments = (brokers, f"{source},{dead}:{SOON_MS},{target}:{SOON_MS}")
    kill_with_work_decided(job)
    until(job.left_open, equals=[])

    done = job.run(**FAIR)

    assert done.returncode == 0, done.stderr
    assert "was aborted; restoring" in done.stderr
    assert_exactly_once(job)


def test_where_one_sink_can_commit_and_the_other_ran_out_the_job_stops_and_names_both(
    job: KafkaJob, brittle: KafkaService
) -> None:
    lasting, brief = job.target, brittle.new_topic(prefix="brief")
    brokers, topics = job.arguments
    job.arguments = (brokers, f"{topics},{brief}:{SOON_MS}")
    kill_with_work_decided(job)
    job.target = brief
    until(job.left_open, equals=[])

    done = job.run()

    assert done.returncode != 0
    (told,) = [line for line in done.stderr.splitlines() if "CommitFailedError" in line]
    visible, _, lost = told.partition("aborted and lost: ")
    assert f"sink '{lasting}' transaction" in visible.partition("committed: ")[2]
    assert lost.startswith(f"sink '{brief}' transaction")
    assert "--accept-loss" in lost
