"""What is loaded in worker processes is looked at by the garbage collector once; each test is a process of its own."""

from __future__ import annotations

import subprocess
import sys

LOAD = "import gc; from tidegate.runtime.spark import freezing"


def said(program: str) -> list[str]:
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_is_loaded_between_two_tasks_is_left_out_once() -> None:
    before, loaded, again, collected = map(
        int,
        said(
            f"{LOAD}; freezing.begin(); print(gc.get_freeze_count())\n"
            "import csv, fractions; freezing.again(); print(gc.get_freeze_count())\n"
            "kept = [[] for _ in range(1000)]; freezing.again(); print(gc.get_freeze_count())\n"
            "loop = []; loop.append(loop); del loop; print(gc.collect())"
        ),
    )
    assert loaded > before
    assert again == loaded
    assert collected >= 1


def test_processes_of_another_daemon_stay_as_they_are() -> None:
    assert said(f"{LOAD}; import csv; freezing.again(); print(gc.get_freeze_count())") == ["0"]
