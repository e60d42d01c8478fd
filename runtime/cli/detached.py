"""`tidegate run -d`: runs a program in the background, in a separate session with a log file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidegate.backends.private import make_directories
from tidegate.clock import new_id
from tidegate.runtime.cli.starting import await_start, runs
from tidegate.runtime.options import default_root

__all__ = ["start"]

_LAST_LINES: Final = 20


def start(command: Sequence[str], *, stands_by: bool) -> int:
    """Start the command with output to a file, wait until its job runs or is a standby, and print the job's id.

    If the program ends before that, its last output is printed and its exit code is returned.
    """
    log = _log_file()
    log.touch(0o600, exist_ok=False)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        job = await_start(
            lambda job: job.process.pid == process.pid and (stands_by or runs(job)),
            lambda: process.poll() is None,
        )
    except KeyboardInterrupt:
        process.terminate()
        raise
    if job is not None:
        process.returncode = 0  # the process is not waited for, on purpose
        print(job.run)
        print(f"its output is in {log}", file=sys.stderr)
        return 0
    code = process.wait()
    last = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    print("\n".join(last), file=sys.stderr)
    return code if code >= 0 else 1


def _log_file() -> Path:
    directory = default_root(os.environ) / ".jobs"
    make_directories(directory)
    return directory / f"{new_id(8)}.log"
