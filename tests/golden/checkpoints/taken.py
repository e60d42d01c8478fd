"""Checkpoints and savepoints with every kind of state; run as a module it takes those of this version into a directory.

`PYTHONPATH=<a folder with a link to tests> python -P -m tests.golden.checkpoints.taken DIRECTORY`
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.random_changes.generated import PAUSE_S
from tests.random_changes.model import Change
from tests.random_changes.program import Described, build, stop
from tests.random_changes.runs import common, in_flight
from tidegate.errors import JobFailedError

__all__ = ["PROGRAMS", "settings"]

CHANGES: Final[list[Change]] = [(number % 4, number % 3, number * 7 % 10) for number in range(160)]
WAITING: Final = ["rebalance", 2, PAUSE_S]
ELEMENTS: Final = Described(
    ["broadcast process", "ordered", "async process", WAITING, "keyed broadcast process", "later"],
    CHANGES,
    "hybrid",
)
NUMBERS: Final = Described(["stamp", "reduce", WAITING, "keyed map", "total"], CHANGES)
WINDOWS: Final = Described(["map", WAITING, "windows"], CHANGES)
PROGRAMS: Final[dict[str, tuple[Described, dict[str, Any]]]] = {
    f"{name}-{backend}-{form or 'overtaken'}": (program, {"backend": backend, "form": form})
    for name, program, backend, form in (
        ("elements", ELEMENTS, "heap", ""),
        ("elements", ELEMENTS, "rocksdb", "native"),
        ("elements", ELEMENTS, "filesystem", "canonical"),
        ("numbers", NUMBERS, "filesystem", ""),
        ("numbers", NUMBERS, "heap", "native"),
        ("numbers", NUMBERS, "rocksdb", "canonical"),
        ("windows", WINDOWS, "rocksdb", ""),
        ("windows", WINDOWS, "filesystem", "native"),
        ("windows", WINDOWS, "heap", "canonical"),
    )
}


def settings(directory: Path, backend: str) -> dict[str, Any]:
    """Of a run whose checkpoints and output are in a directory."""
    return common(directory) | {
        "execution.target": "inline",
        "parallelism.default": 2,
        "state.backend.type": backend,
        "restart-strategy.type": "none",
        "execution.checkpointing.unaligned.enabled": True,
        "state.checkpoints.num-retained": 1,
        "state.backend.fs.memory-threshold": 0,
        "execution.take-over": True,
    }


def take(directory: Path, program: Described, backend: str, form: str) -> None:
    """Run a program until it has a checkpoint that has overtaken records, or end it with a savepoint."""
    given, never = settings(directory, backend), str(directory / "never")
    if form:
        stop(build(program, directory / "out", given, never), directory / "out", form)
        shutil.rmtree(directory / "state")
        return
    given |= {"testing.faults": "jobmanager/checkpoint.after-settled@5!raise"}
    given |= {"testing.faults-dir": str(directory / "witnesses")}
    with contextlib.suppress(JobFailedError), patch("tidegate.backends.keyed.snapshot.MIN_LOG_BYTES", 1):
        build(program, directory / "out", given, never).execute("random")
    assert in_flight(directory), "no records were overtaken"


if __name__ == "__main__":
    for name, (program, how) in PROGRAMS.items():
        place = Path(sys.argv[1], f"{name}-1")
        take(place, program, **how)
        shutil.make_archive(str(place), "gztar", place)
