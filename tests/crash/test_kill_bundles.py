"""`kill -9` around results that an operator of another package holds back within a batch: each payment counts once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import Job
from tests.crash.test_kill_overtaking import overtaken
from tests.packages.install import install

pytestmark = pytest.mark.crash

PROGRAMS = Path(__file__).parent / "programs"
LOCAL_SUMS = PROGRAMS.parent.parent / "packages" / "local_sums.py"
WINDOW_MS, ACCOUNTS = 50, 7


@pytest.fixture
def bundled(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job with the operator in front of a window; barriers overtake what waits in front of it."""
    installed = tmp_path / "installed"
    installed.mkdir()
    entry_points = "[tidegate.operators]\nlocal-sums = local_sums:LOCAL_SUMS\n"
    install(installed, monkeypatch, "local-sums", LOCAL_SUMS.read_text(), entry_points)
    job.program, job.arguments = PROGRAMS / "bundled.py", ("0",)
    job.settings = {"execution.checkpointing.unaligned.enabled": True}
    return job


def wrong(job: Job) -> Counter[tuple[str, int, int, int]]:
    """What is in the output and should not be, and what is missing."""
    amounts, counts = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for number in range(job.count):
        at = f"account-{number * 7919 % ACCOUNTS}", number // WINDOW_MS
        amounts[at] += number % 13
        counts[at] += 1
    expected = Counter({(*at, amounts[at], counts[at]): 1 for at in counts})
    rows = [json.loads(line) for line in job.written().elements()]
    found = Counter((row["account"], row["window"], row["amount"], row["count"]) for row in rows)
    expected.subtract(found)
    return Counter({row: surplus for row, surplus in expected.items() if surplus})


@pytest.mark.parametrize(
    "point",
    ["bundle.before-finish@40", "task.after-batch@80", "task.before-snapshot@9", "task.after-snapshot@9"],
)
def test_a_killed_worker_loses_and_repeats_nothing_of_what_was_held_back(bundled: Job, point: str) -> None:
    done = bundled.run_into(f"taskmanager-1/{point}")

    assert done.returncode == 0, done.stderr
    assert bundled.reached(f"taskmanager-1/{point}")
    assert wrong(bundled) == Counter()


def test_a_killed_program_goes_on_at_other_parallelisms_and_on_other_backends(bundled: Job) -> None:
    bundled.arguments = ("0.003",)
    for parallelism, backend in ((2, "heap"), (3, "rocksdb")):
        bundled.kill_at(
            "jobmanager/checkpoint.after-swap@3",
            parallelism__default=parallelism,
            state__backend__type=backend,
        )
        assert "pairs" in overtaken(bundled), "records were on their way"
        for witness in bundled.witnesses.iterdir():
            witness.unlink()
    bundled.arguments = ("0",)

    result = bundled.result(parallelism__default=1)

    assert result["resumed_from"] is not None
    assert wrong(bundled) == Counter()
