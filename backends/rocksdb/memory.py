"""Memory budget of RocksDB in one process: from the options, or a share of the container's limit."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["Shares", "container_bytes", "default_memory", "return_large_blocks", "shares"]

MOST_BY_DEFAULT: Final = 512 * 1024 * 1024

_LIMITS: Final = ("memory.max", "memory/memory.limit_in_bytes")
"""Of the second and of the first version of control groups; a number, or `max`."""

_MMAP_THRESHOLD: Final = -3
"""What `mallopt` of the GNU library calls the size from which on memory is asked of the system."""

_LARGE: Final = 1_000_000
"""Just below the blocks that write buffers consist of."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What each part of a database and of what stands before it may take of memory, in bytes."""

    blocks: int
    """Blocks of files, their indexes and filters."""
    writes: int
    """What is not in a file yet."""
    rows: int
    """Rows as objects, not encoded yet."""
    log: int
    """What was written since the last checkpoint."""
    late: int
    """What the database gets later."""


def shares(memory_bytes: int) -> Shares:
    """How a given memory is divided; the rest is for uncounted memory: compactions and heap fragmentation.

    Example:
        >>> shares(64 * 1024 * 1024).log // 1024**2
        4
    """
    return Shares(
        blocks=memory_bytes // 8,
        writes=memory_bytes // 4,
        rows=memory_bytes // 16,
        log=memory_bytes // 16,
        late=memory_bytes // 16,
    )


def default_memory() -> int:
    """A quarter of the container's memory limit, shared by one process per core, at most half a gigabyte."""
    return min(container_bytes() // 4 // len(os.sched_getaffinity(0)), MOST_BY_DEFAULT)


@cache
def return_large_blocks() -> None:
    """Let large blocks of memory, of this whole process, go back to the system when they are freed.

    The GNU library keeps them once it has seen some, and small ones that stay in between make holes of the rest: a
    fifth of what a process with a full database takes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)


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
