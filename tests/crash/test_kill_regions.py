"""A batch job whose last stage fails: what earlier stages have finished is read again, unless it is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

COUNT = 1_700
ACCOUNTS = 17
PROGRAM = Path(__file__).parent / "programs" / "batch_regions.py"

Failing = Callable[..., Any]


@pytest.fixture
def failing(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Failing:
    """The job of these tests, failing in some way."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))

    def fails(how: str, **settings: Any) -> Any:
        job.program, job.count, job.arguments, job.pipeline = PROGRAM, COUNT, (how,), "regions"
        job.settings = {"pipeline.event-log": str(tmp_path / "events"), **settings}
        return job

    return fails


def noted(job: Any, name: str) -> Counter[str]:
    return Counter((job.directory / name).read_text().split())


def events(job: Any, what: str) -> list[str]:
    lines = (job.directory / "events").read_text().splitlines()
    return [event["text"] for event in map(json.loads, lines) if event["what"] == what]


def right() -> Counter[str]:
    return Counter(
        json.dumps({"account": f"account-{account}", "total": sum(range(account, COUNT, ACCOUNTS))})
        for account in range(ACCOUNTS)
    )


def written(job: Any) -> Counter[str]:
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in job.written().elements())


ONCE = Counter(map(str, range(COUNT)))
SUMS_ONCE = Counter(f"account-{account}" for account in range(ACCOUNTS))


@pytest.mark.spec("003/JM-24")
@pytest.mark.parametrize("how", ["kill", "raise"])
def test_finished_stages_do_not_run_again_when_a_later_task_fails(failing: Failing, how: str) -> None:
    job = failing(how)
    assert job.result()["state"] == "finished"

    assert noted(job, "reads") == ONCE
    assert noted(job, "sums") == SUMS_ONCE
    assert written(job) == right()
    (regions,) = events(job, "regions")
    again, _, kept = regions.partition(" run again; the results of ")
    assert len(again.split(", ")) == 2, regions
    assert len(kept.removesuffix(" are read again").split(", ")) == 4, regions


@pytest.mark.spec("003/JM-24")
@pytest.mark.parametrize("how", ["lose", "damage"])
def test_a_stage_whose_result_is_lost_runs_again(failing: Failing, how: str) -> None:
    job = failing(how)
    assert job.result()["state"] == "finished"

    assert noted(job, "reads") == Counter(dict.fromkeys(ONCE, 2))
    sums = noted(job, "sums")
    assert sums.keys() == SUMS_ONCE.keys()
    assert min(sums.values()) == 2 or how == "damage", "damage is found one file after the other"
    assert min(sums.values()) >= 2
    assert written(job) == right()


def test_full_failover_keeps_no_result(failing: Failing) -> None:
    job = failing("kill", **{"jobmanager.execution.failover-strategy": "full"})
    assert job.result()["state"] == "finished"

    assert noted(job, "reads") == Counter(dict.fromkeys(ONCE, 2))
    assert written(job) == right()


def test_what_the_last_checkpoint_says_of_a_source_that_was_kept_is_that_it_is_read(failing: Failing) -> None:
    job = failing("kill")
    job.kill_at("jobmanager/checkpoint.after-swap")
    assert job.result()["state"] == "finished"

    assert noted(job, "reads") == ONCE
    assert written(job) == right()


def test_nothing_of_the_results_is_left_behind(failing: Failing) -> None:
    job = failing("kill")
    job.result()

    assert list((job.directory / "temporary").iterdir()) == []
