"""How a machine is lost in the midst of an epoch: its shuffled files are gone, and so is the task that runs there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path


def lose_shuffled(fifo: Path, spark: Path) -> Callable[[int], None]:
    """What the second of two subtasks does, once, when the first one is through; both call it when they begin."""

    def lose(subtask: int) -> None:
        flag = fifo.with_name(f"subtask-{subtask}-was-here")
        if flag.exists():
            return
        flag.touch()
        if subtask == 0:
            fifo.write_bytes(b"here")  # until the other one reads
            return
        fifo.read_bytes()
        for place, _, names in os.walk(spark):  # passes over what tasks remove meanwhile
            for name in names:
                if name.startswith("shuffle_"):
                    Path(place, name).unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)

    return lose
