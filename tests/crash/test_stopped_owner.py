"""Two owners: one is stopped between a check and what it does then, is replaced, and wakes up while the other one works.

What the second one has prepared, decided and written must not be touched, and what both have written is every record once.
A seed chooses where the first one is stopped, alone or with its workers, and when it wakes up.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from tests.crash.conftest import Job
from tests.crash.kafka_job import (
    KafkaJob,
    assert_exactly_once,
    between_topics as between_topics,
    payments as payments,
)
from tests.crash.test_standby import wait_until
from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK

pytestmark = pytest.mark.crash

LEASE_S = 3
OWNER = {"pipeline.progress": "json", "high-availability.lease": f"{LEASE_S} s"}
STANDBY = {**OWNER, "high-availability.standby": True}
ON_SPARK = {"execution.target": "local[2]", "execution.spark.epoch-records": 200}
SEEDS = {"files": (4, 80), "kafka": (4, 80), "spark": (2, 40)}
"""How many of each are tried, and how many in long runs."""


Moment = Literal["start", "restart", "work"]


@dataclass(frozen=True)
class Scene:
    """Where the first owner is stopped, and after how many decisions of the second one it wakes up."""

    moment: Moment
    point: str
    woken_after: int

    @staticmethod
    def of(seed: int, *, sinks: int) -> Scene:
        chance = random.Random(seed)
        moments: tuple[Moment, ...] = get_args(Moment)
        moment = moments[seed % 3]
        points = {
            "start": ["abort.before", f"abort.before@{sinks}", "restore.before-sweep"],
            "restart": ["commit.before", *[f"abort.before@{sinks + 1}", f"abort.before@{sinks + 2}"][:sinks]],
            "work": [""],
        }
        return Scene(moment, chance.choice(points[moment]), chance.randint(1, 8))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" not in metafunc.fixturenames:
        return
    kind = metafunc.function.__name__.partition("_between_")[2].partition("_")[0]
    quick, long = SEEDS[kind]
    metafunc.parametrize("seed", range(long if metafunc.config.getoption("--profile") == "long" else quick))


@contextmanager
def started(job: Job, settings: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the program, in a group with its workers; it is gone afterwards."""
    process = subprocess.Popen(
        job.command(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def decided(process: subprocess.Popen[str], least: int) -> None:
    """Read what a process says of itself until it has decided so many checkpoints, or all there are on a slow machine."""

    def enough(line: str) -> bool:
        said = json.loads(line) if line.startswith("{") else {}
        return bool(said.get("decided", 0) >= least or said.get("state") == "finished")

    wait_until(process, enough)


@contextmanager
def stopped_owner(job: Job, scene: Scene, settings: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """An owner that is stopped where the scene says."""
    faults = f"jobmanager/{scene.point}!stop"
    if scene.moment == "start":
        slow = replace(job, rate=800.0)
        swap = "checkpoint.after-swap@4" if settings else "checkpoint.after-swap@8"
        slow.kill_at(swap, **{key.replace(".", "__"): on for key, on in settings.items()})
        shutil.rmtree(job.witnesses)
    elif scene.moment == "restart":
        # Its worker dies with work that nobody has decided on, or with work that is decided and not committed.
        victim = "commit.before" if scene.point == "commit.before" else "sink.after-prepare"
        faults = f"taskmanager-0/{victim}@3,{faults}"
    armed = {"testing.faults": faults, "testing.faults-dir": str(job.witnesses), "pipeline.progress": "off"}
    with started(job, OWNER | settings | (armed if scene.moment != "work" else {})) as owner:
        if scene.moment == "work":
            decided(owner, 2 + scene.woken_after)
            os.killpg(owner.pid, signal.SIGSTOP)
        else:
            stopped = f"{faults.count(',')}-{scene.point.partition('@')[0]}"
            until(lambda: (job.witnesses / stopped).exists() or owner.poll() is not None)
            assert owner.poll() is None, owner.communicate()
        yield owner


def states(job: Job, owner: str) -> list[str]:
    """The states that a job came to at one of its owners."""
    events = map(json.loads, (job.witnesses.parent / owner).read_text().splitlines())
    return [event["text"] for event in events if event["what"] == "state"]


def play(job: Job, scene: Scene, settings: dict[str, Any]) -> None:
    logs = [{"pipeline.event-log": str(job.witnesses.parent / owner)} for owner in ("first", "second")]
    with (
        stopped_owner(job, scene, settings | logs[0]) as first,
        started(replace(job, rate=800.0), STANDBY | settings | logs[1]) as second,
    ):
        wait_until(second, lambda line: "standing by for run" in line)
        decided(second, scene.woken_after)
        os.killpg(first.pid, signal.SIGCONT)
        out, err = second.communicate(timeout=job.patience_s)
        _, said = first.communicate(timeout=job.patience_s)

    assert second.returncode == 0, err
    assert json.loads(out)["state"] == "finished"
    assert first.returncode != 0
    assert "FencedError" in said
    assert states(job, "first")[-1] == "suspended"
    assert states(job, "second") == ["running", "finished"]


@pytest.mark.spec("003/JM-11")
def test_two_owners_between_files_leave_each_record_once(job: Job, seed: int) -> None:
    play(job, Scene.of(seed, sinks=1), {})
    assert job.audit() == []
    assert not list(job.output.glob(".tidegate/*/*.pending"))


@pytest.mark.service
def test_two_owners_between_kafka_topics_leave_each_record_once(between_topics: KafkaJob, seed: int) -> None:
    play(between_topics, Scene.of(seed, sinks=2), {})
    assert_exactly_once(between_topics)


@pytest.mark.spark
@pytest.mark.service
def test_two_owners_between_spark_topics_leave_each_record_once(between_topics: KafkaJob, seed: int) -> None:
    between_topics.patience_s = 300
    play(between_topics, replace(Scene.of(3 * seed, sinks=2), moment="start"), ON_SPARK)
    assert_exactly_once(between_topics)


def test_workers_of_a_silent_owner_stop_by_themselves(job: Job) -> None:
    with started(replace(job, rate=200.0), OWNER) as owner:
        decided(owner, 2)
        workers = [pid for pid in in_group(owner.pid) if pid != owner.pid]
        assert len(workers) == 3, "two workers and the process they were forked from"
        os.kill(owner.pid, signal.SIGSTOP)
        stopped = SYSTEM_CLOCK.monotonic()
        until(lambda: in_group(owner.pid), equals=[owner.pid])
        took_s = SYSTEM_CLOCK.monotonic() - stopped
        seen = job.written()

    assert took_s < 2 * LEASE_S, f"they went on for {took_s:.1f} s"
    assert job.written() == seen


def in_group(leader: int) -> list[int]:
    """The processes of a group that run or are stopped."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, group = path.joinpath("stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state not in "ZX":
                found.append(int(path.name))
    return sorted(found)
