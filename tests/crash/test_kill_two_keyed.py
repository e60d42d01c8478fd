"""`kill -9` of a job with two steps with state in one chain: both go on with what one checkpoint holds."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.crash.conftest import Job
from tests.crash.test_kill_overtaking import overtaken

pytestmark = pytest.mark.crash

TWO_KEYED = Path(__file__).parent / "programs" / "two_keyed.py"


@pytest.fixture
def two_keyed(job: Job) -> Job:
    job.program, job.arguments = TWO_KEYED, ("0", "in place")
    job.settings = {"execution.checkpointing.unaligned.enabled": True}
    return job


def assert_exact(job: Job) -> None:
    """Each record once, totals right, and the counts of each account without a gap, in the order of its totals."""
    assert job.audit() == []
    counts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in job.written().elements():
        row = json.loads(line)
        counts[row["account"]].append((row["total"], row["count"]))
    for account, found in counts.items():
        assert [count for _, count in sorted(found)] == list(range(1, len(found) + 1)), account


@pytest.mark.parametrize("point", ["task.after-batch@90", "task.after-snapshot@8"])
def test_a_killed_worker_is_replaced(two_keyed: Job, point: str) -> None:
    done = two_keyed.run_into(f"taskmanager-1/{point}")

    assert done.returncode == 0, done.stderr
    assert two_keyed.reached(f"taskmanager-1/{point}")
    assert_exact(two_keyed)


def test_a_killed_program_goes_on_with_an_exchange_or_without_at_any_parallelism(two_keyed: Job) -> None:
    ways = ((2, "heap", "by an exchange"), (3, "rocksdb", "in place"), (2, "heap", "in place"))
    for parallelism, backend, way in ways:
        two_keyed.arguments = ("0.002", way)
        two_keyed.kill_at(
            "jobmanager/checkpoint.after-swap@3",
            parallelism__default=parallelism,
            state__backend__type=backend,
        )
        assert "totals" in overtaken(two_keyed), "records were on their way"
        for witness in two_keyed.witnesses.iterdir():
            witness.unlink()
    two_keyed.arguments = ("0", "in place")

    assert two_keyed.result(parallelism__default=1)["resumed_from"] is not None
    assert_exact(two_keyed)
