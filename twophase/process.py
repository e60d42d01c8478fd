"""Process identity in a lease: the current process, and whether the process of a lease is alive."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tidegate.ids import FencingTerm, RunId
from tidegate.twophase.fencing import Lease

__all__ = ["alive", "this_process", "this_process_id"]

_PROC = Path("/proc")


def this_process(term: FencingTerm, run: RunId) -> Lease:
    """A lease for the calling process."""
    pid = os.getpid()
    started = _start_time(pid)
    assert started is not None
    return Lease(socket.gethostname(), _boot_id(), pid, started, term, run)


def this_process_id() -> str:
    """Names the calling process among all there are and were, on any machine."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{_boot_id()}/{pid}/{_start_time(pid)}"


def alive(lease: Lease) -> bool | None:
    """Whether the holder still runs; None if it belongs to another machine, boot or process namespace."""
    if (lease.host, lease.boot_id) != (socket.gethostname(), _boot_id()):
        return None
    return _start_time(lease.pid) == lease.start_time


def _boot_id() -> str:
    # Containers share the machine's boot id but not its pids; a pid means something only within its namespace.
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{(_PROC / 'self/ns/pid').stat().st_ino}"


def _start_time(pid: int) -> int | None:
    """The start time of a live process, None if it does not exist or is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in brackets and may itself hold spaces and brackets.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])
