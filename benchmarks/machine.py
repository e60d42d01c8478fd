"""Facts about the machine a measurement ran on, and how much of it was free meanwhile."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

__all__ = ["CoreMeter", "cpu_seconds", "machine_facts"]


def machine_facts() -> dict[str, str | int]:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": f"{os.getloadavg()[0]:.2f}",
    }


class CoreMeter:
    """Counts the cores that were idle or ours since it was made: what the measurement could have had."""

    def __init__(self) -> None:
        self._idle, self._own, self._wall = _idle_seconds(), cpu_seconds(), time.perf_counter()

    def free_cores(self) -> float:
        elapsed = max(time.perf_counter() - self._wall, 1e-9)
        return (_idle_seconds() - self._idle + cpu_seconds() - self._own) / elapsed


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _idle_seconds() -> float:
    fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
