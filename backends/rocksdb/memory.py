"""How much memory RocksDB may take in one process: what the setting says, or a share of what the container allows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["container_bytes", "default_memory"]

MOST_BY_DEFAULT: Final = 512 * 1024 * 1024

_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")
"""Of the second and of the first version of control groups; a number, or `max`."""


def default_memory() -> int:
    """A quarter of what the container allows, shared by one process per core, and no more than half a gigabyte."""
    return min(container_bytes() // 4 // len(os.sched_getaffinity(0)), MOST_BY_DEFAULT)


def container_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """The memory this container may use: its limit, or all of the machine if it has none."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in _LIMITS:
        try:
            text = (groups / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found)
