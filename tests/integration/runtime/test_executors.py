"""The same program means the same on every executor, at every parallelism and with every backend."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.integration.runtime.audit import faults_in_totals, totals
from tests.integration.runtime.conftest import PROGRAMS, Executor, Place

COUNT = 2_000
ALL = {"count": COUNT, "rate": None, "on_branch": "refuse"}


def test_totals_are_the_same_and_computed_where_they_should_be(
    place: Place, executor: Executor, backend: str
) -> None:
    place.settings = {**executor.settings, "state.backend.type": backend}

    result = place.start("totals.py", ALL).result()

    rows = place.rows()
    assert faults_in_totals(rows, COUNT) == []
    assert totals(rows) == {
        f"account-{account}": sum(n % 13 for n in range(account, COUNT, 37)) for account in range(37)
    }
    assert (result["state"], result["records"], result["resumed_from"]) == ("finished", COUNT, None)
    pids = {row["pid"] for row in rows}
    assert len(pids) == max(1, executor.processes)
    assert (result["pid"] in pids) == (executor.target == "inline")


def test_values_changed_in_place_mean_the_same_everywhere(executor: Executor, backend: str) -> None:
    settings = {
        **executor.settings,
        "state.backend.type": backend,
        "state.cache.entries": 1,
        "execution.checkpointing.interval": "20 ms",
        "pipeline.progress": "off",
    }

    ran = subprocess.run(
        [sys.executable, "-P", str(PROGRAMS / "isolation.py"), json.dumps(settings)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == _expected_of_isolation()


def _expected_of_isolation() -> list[str]:
    expected = []
    for key in range(4):
        numbers = list(range(key, 40, 4))
        for at, _ in enumerate(numbers):
            value: dict[str, object] = {"numbers": numbers[: at + 1]}
            if at:
                value["last"] = numbers[at - 1]
            expected += [value, {**value, "by": "map"}]
    return sorted(json.dumps(value, sort_keys=True) for value in expected)
