"""`kill -9` in a batch job that runs on Spark: what died is repeated, what was finished is not, and each result is written once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_kill_batch import totals
from tests.crash.test_kill_regions import ONCE, PROGRAM, SUMS_ONCE, noted, right

pytestmark = [pytest.mark.crash, pytest.mark.spark]

OF_TASKS = [
    "taskmanager-1/sink.after-prepare@1",
    "taskmanager-0/task.after-batch@1",
    "taskmanager-1/task.before-ack@1",
    "taskmanager-0/sink.before-flush@1",
]
OF_DRIVER = [
    "jobmanager/checkpoint.after-swap",
    "jobmanager/checkpoint.before-swap",
    "jobmanager/commit.after",
    "jobmanager/checkpoint.before-settled",
    "jobmanager/checkpoint.after-settled",
]
QUICK = 1
"""How many are tried unless there is time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    points = {"of_task": OF_TASKS, "of_driver": OF_DRIVER}
    long = metafunc.config.getoption("--profile") == "long"
    for name in points.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, points[name] if long else points[name][:QUICK])


@pytest.fixture
def on_spark(job: Any) -> Any:
    """A batch job of three stages on a local master; Spark repeats what dies there, too."""
    job.program = Path(__file__).parent / "programs" / "batch_totals.py"
    job.settings = {"execution.target": "local[2]", "execution.sorted-inputs.memory": "20 kb"}
    job.patience_s = 300
    return job


def written(job: Any) -> Counter[str]:
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in job.written().elements())


@pytest.mark.long
def test_a_killed_worker_process_is_repeated_by_spark_alone(on_spark: Any, of_task: str) -> None:
    done = on_spark.run_into(of_task)

    assert done.returncode == 0, done.stderr
    (witness,) = on_spark.witnesses.iterdir()
    assert witness.name.endswith(of_task.partition("/")[2].partition("@")[0])
    assert not Path(f"/proc/{int(witness.read_text().split()[0])}").exists()
    assert json.loads(done.stdout)["restarts"] == 0
    assert written(on_spark) == totals()


def test_a_killed_driver_is_followed_by_one_that_writes_every_total_once(
    on_spark: Any, of_driver: str
) -> None:
    on_spark.kill_at(of_driver)
    assert on_spark.result()["state"] == "finished"

    assert written(on_spark) == totals()


def test_finished_stages_do_not_run_again_when_a_worker_process_of_the_last_one_dies(on_spark: Any) -> None:
    on_spark.program, on_spark.count, on_spark.arguments = PROGRAM, 1_700, ("kill",)
    result = on_spark.result()

    assert (result["state"], result["restarts"]) == ("finished", 0)
    assert not Path(f"/proc/{int((on_spark.directory / 'failed').read_text())}").exists()
    assert noted(on_spark, "reads") == ONCE
    assert noted(on_spark, "sums") == SUMS_ONCE
    assert written(on_spark) == right()
