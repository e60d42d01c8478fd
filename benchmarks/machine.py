"""Facts about the machine a measurement ran on, and how much of it was free meanwhile."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

__all__ = ["CoreMeter", "cpu_seconds", "machine_facts", "tree_cpu_seconds"]


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
        self._idle, self._own = _idle_seconds(), tree_cpu_seconds(os.getpid())
        self._wall = time.perf_counter()

    def free_cores(self) -> float:
        elapsed = max(time.perf_counter() - self._wall, 1e-9)
        free = (_idle_seconds() - self._idle + tree_cpu_seconds(os.getpid()) - self._own) / elapsed
        # The kernel counts in ticks, of which a short measurement sees one too many or too few.
        return min(max(free, 0.0), len(os.sched_getaffinity(0)))


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def tree_cpu_seconds(root: int) -> float:
    """CPU seconds of a process, of all its living descendants, and of those that each of them waited for."""
    parents, spent = dict[int, int](), dict[int, float]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(") ")[2].split()
        except OSError:  # it ended meanwhile; its parent has counted it
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        spent[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family, grown = {root}, True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in family} - family
        family, grown = family | children, bool(children)
    return sum(spent.get(pid, 0.0) for pid in family)


def _idle_seconds() -> float:
    fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
