"""`kill -9` at every step of a checkpoint, of a worker, of the process that runs the job, or of one after the other.

Every two of point, victims, backend and barriers meet in some row; `--profile=long` runs all combinations.
"""

from __future__ import annotations

import signal
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.bank import Bank
from tests.crash.pairwise import Row, pairwise
from tidegate import faults

pytestmark = pytest.mark.crash

OF_WORKERS: Final = (
    "task.after-batch@8",
    "task.before-snapshot@3",
    "sink.before-flush@3",
    "sink.after-prepare@3",
    "task.after-snapshot@3",
    "task.before-ack@3",
    "base.before-upload",
    "base.after-upload",
    "commit.before@3",
    "commit.after@3",
)
OF_JOBMANAGERS: Final = (
    "checkpoint.before-metadata@3",
    "checkpoint.after-metadata@3",
    "checkpoint.before-swap@3",
    "checkpoint.after-swap@3",
    "checkpoint.before-settled@3",
    "checkpoint.after-settled@3",
)
COLUMNS: Final = {
    "point": (*OF_WORKERS, *OF_JOBMANAGERS),
    "victims": ("one", "both"),
    "backend": ("heap", "filesystem", "rocksdb"),
    "barriers": ("aligned", "unaligned", "timed", "not waited for"),
}
BARRIERS: Final[dict[str, dict[str, Any]]] = {
    "aligned": {},
    "unaligned": {"execution.checkpointing.unaligned.enabled": True},
    "timed": {
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.aligned-checkpoint-timeout": "2 ms",
    },
    "not waited for": {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
}
FREQUENT: Final = {"execution.checkpointing.interval": "5 ms", "state.backend.fs.memory-threshold": 0}
"""Enough checkpoints for a base."""


def armed_by(row: Row) -> str:
    """The armed points of a row; the second victim is a process of the other kind, earlier or later."""
    if row["point"] in OF_WORKERS:
        later = 50 if row["point"].startswith("base.") else 6
        second = f"jobmanager/checkpoint.after-metadata@{later}"
        first = f"taskmanager-1/{row['point']}"
    else:
        second = "taskmanager-0/task.after-batch@4"
        first = f"jobmanager/{row['point']}"
    return first if row["victims"] == "one" else f"{first},{second}"


def named(row: Row) -> str:
    return "-".join(map(str, row.values()))


@pytest.fixture
def bank(row: Row, tmp_path: Path) -> Bank:
    settings = {"state.backend.type": row["backend"], **BARRIERS[row["barriers"]]}
    if row["point"].startswith("base."):
        return Bank(tmp_path / "bank", settings | FREQUENT, count=6_000, rate=1_500.0)
    return Bank(tmp_path / "bank", settings)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    whole = metafunc.config.getoption("--profile") == "long"
    every = [dict(zip(COLUMNS, values, strict=True)) for values in product(*COLUMNS.values())]
    rows = every if whole else pairwise(COLUMNS, seed=2)
    if metafunc.function is test_the_bank_is_whole_after_a_kill:
        metafunc.parametrize("row", rows, ids=named)


def test_the_bank_is_whole_after_a_kill(bank: Bank, row: Row) -> None:
    armed = armed_by(row)
    if "jobmanager/" in armed:
        killed = bank.run_into(armed)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert bank.lost(), "it had finished before it was killed"
        newest, unread = bank.newest(), bank.unread()

        result = bank.result()

        assert newest is not None
        assert (result["resumed_from"], result["records"]) == (newest.checkpoint, unread)
    else:
        alone = bank.beside("alone", {"restart-strategy.type": "none"})
        ended = alone.run_into(armed)
        assert (ended.returncode, alone.reached(armed)) == (1, True), ended.stderr
        assert alone.lost(), "it needs no restart"

        done = bank.run_into(armed)

        assert done.returncode == 0, done.stderr
        assert "killed by SIGKILL" in done.stderr
        assert bank.resumed(), (bank.went_on(), bank.positions())
    assert all(bank.reached(point) for point in armed.split(","))
    assert (bank.lost() if row["barriers"] == "not waited for" else bank.audit()) == []


def test_every_crash_point_is_in_some_test_of_a_kill() -> None:
    tried = "".join(path.read_text() for path in Path(__file__).parent.glob("test_kill_*.py"))
    in_matrix = {point.partition("@")[0] for point in COLUMNS["point"]}

    assert [point for point in faults.POINTS if point not in in_matrix and point not in tried] == []
