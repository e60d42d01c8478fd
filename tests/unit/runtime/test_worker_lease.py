"""Workers do nothing under a lease that may have run out, not even one instruction after having been stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until
from tidegate.clock import ManualClock
from tidegate.errors import FencedError, UnavailableError
from tidegate.runtime.process_signals import KillTimer
from tidegate.runtime.worker_lease import WorkerLease

LEASE_MS = 10_000

STOPPED = """
import os, signal, sys
from tidegate.runtime.process_signals import KillTimer
timer = KillTimer()
timer.set(0.2)
os.kill(os.getpid(), signal.SIGSTOP)
open(sys.argv[1], "w").close()
"""

FAMILY = """
import os, subprocess, sys
from tidegate.runtime.process_signals import die_with_parent
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, "-P", __file__, "child"])
    child.wait()
die_with_parent()
print(os.getpid(), flush=True)
import signal
signal.pause()
"""


class RecordedTimer(KillTimer):
    """Says what the timer was set to instead of killing this process."""

    def __init__(self) -> None:
        self.set_to: list[float | None] = []

    def set(self, seconds: float | None) -> None:
        self.set_to.append(seconds)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_steps_begin_only_with_enough_of_the_lease_left(clock: ManualClock) -> None:
    lease = WorkerLease(clock, LEASE_MS)
    assert not lease.holds()
    lease.renewed(10.0)
    clock.advance(7_999)
    assert lease.holds()
    clock.advance(1)
    assert not lease.holds()


def test_a_storage_that_is_away_makes_a_worker_pause_for_as_long_as_its_owner_lives(
    clock: ManualClock,
) -> None:
    lease = WorkerLease(clock, LEASE_MS)
    lease.renewed(10.0)
    for _ in range(20):
        clock.advance(3_000)
        lease.renewed(10.0)
        assert lease.holds() == (clock.monotonic() < 8)
    lease.renewed(clock.monotonic() + 10)
    assert lease.holds()


def test_an_owner_that_says_nothing_for_a_lease_is_taken_for_gone(clock: ManualClock) -> None:
    lease = WorkerLease(clock, LEASE_MS)
    lease.renewed(10.0)
    clock.advance(9_999)
    assert not lease.holds()
    clock.advance(1)
    with pytest.raises(
        UnavailableError, match="has had no lease renewal from the owner of its run for 10 s and stops"
    ):
        lease.holds()


def test_a_lost_lease_ends_the_work(clock: ManualClock) -> None:
    lease = WorkerLease(clock, LEASE_MS)
    lease.lost(FencedError("replaced"))
    with pytest.raises(FencedError, match=r"^replaced$"):
        lease.holds()


def test_the_process_is_killed_with_the_lease_unless_it_pauses(clock: ManualClock) -> None:
    timer = RecordedTimer()
    lease = WorkerLease(clock, LEASE_MS, timer)
    lease.renewed(10.0)
    clock.advance(3_000)
    lease.renewed(10.0)
    lease.renewed(13.0)
    assert timer.set_to == [10.0, 10.0]
    clock.advance(9_000)
    assert not lease.holds()
    assert not lease.holds()
    assert timer.set_to == [10.0, 10.0, None]
    lease.renewed(20.0)
    lease.lost(FencedError("replaced"))
    assert timer.set_to == [10.0, 10.0, None, 8.0, 0.0]


def test_a_process_that_was_stopped_for_too_long_executes_nothing_more(tmp_path: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-P", "-c", STOPPED, str(tmp_path / "went-on")])
    # Not woken up: the signal of the timer is one that ends even a stopped process.
    assert victim.wait(60) == -signal.SIGKILL
    assert not (tmp_path / "went-on").exists()


def test_a_process_dies_with_the_one_that_started_it_though_it_is_stopped(tmp_path: Path) -> None:
    program = tmp_path / "family.py"
    program.write_text(FAMILY)
    parent = subprocess.Popen([sys.executable, "-P", str(program)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, signal.SIGSTOP)
    parent.kill()
    parent.communicate()
    until(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
