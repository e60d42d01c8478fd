"""`kill -9` of a process at every step of a sink function with transactions: every record is visible once."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

COUNT = 3_000


def into(job: Any, *deadly: str) -> Any:
    """Run the job into death at these steps, at each one time."""
    job.program = Path(__file__).parent / "programs" / "transactions.py"
    job.arguments = (",".join(deadly),)
    return job.run(**{"restart-strategy.fixed-delay.attempts": 10})


def dead(job: Any) -> set[str]:
    """The steps at which a process died."""
    return {path.name.removeprefix("died at ") for path in job.output.glob(".open/died at *")}


@pytest.mark.parametrize(
    "steps",
    [
        ("begin_transaction", "invoke", "before recover_and_abort", "recover_and_abort"),
        ("pre_commit", "before commit", "commit"),
    ],
    ids=["before it is prepared", "prepared"],
)
def test_workers_killed_at_each_step_are_replaced_and_each_record_is_visible_once(
    job: Any, steps: tuple[str, ...]
) -> None:
    done = into(job, *steps)

    assert done.returncode == 0, done.stderr
    assert dead(job) == set(steps)
    assert job.written() == Counter(f'{{"id": {number}}}' for number in range(COUNT))


def test_a_recovery_killed_before_and_after_its_commit_is_finished_by_the_next_start(job: Any) -> None:
    steps = ("before commit", "before recover_and_commit", "recover_and_commit")
    for dies in steps[1:]:
        died = into(job, *steps)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert dies in dead(job)

    assert into(job, *steps).returncode == 0
    assert job.written() == Counter(f'{{"id": {number}}}' for number in range(COUNT))
