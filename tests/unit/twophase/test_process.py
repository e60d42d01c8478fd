"""Processes: the one that runs, one that was killed, one nobody waited for, and those of other machines."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from tidegate.ids import FencingTerm, RunId
from tidegate.twophase.process import alive, this_process

TERM, RUN = FencingTerm(1), RunId("run")


def test_this_process_is_alive_under_its_own_lease() -> None:
    lease = this_process(TERM, RUN)

    assert lease.pid == os.getpid()
    assert alive(lease) is True
    assert this_process(TERM, RUN) == lease


def test_a_reused_pid_is_another_process() -> None:
    lease = this_process(TERM, RUN)

    assert alive(msgspec.structs.replace(lease, start_time=lease.start_time - 1)) is False


def test_a_killed_process_is_dead_even_before_its_parent_noticed() -> None:
    program = (
        "import sys, msgspec; from tidegate.twophase.process import this_process;"
        "print(msgspec.json.encode(this_process(1, 'child')).decode(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        lease = msgspec.json.decode(child.stdout.readline(), type=type(this_process(TERM, RUN)))
        assert lease.pid == child.pid
        assert alive(lease) is True
        child.kill()
        child.stdout.read()  # its end closes when the process is dead, while it is still a zombie
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert alive(lease) is False
    assert alive(lease) is False


def test_nothing_is_known_about_processes_of_other_machines_and_boots() -> None:
    lease = this_process(TERM, RUN)

    assert alive(msgspec.structs.replace(lease, host="elsewhere")) is None
    assert alive(msgspec.structs.replace(lease, boot_id="before")) is None
