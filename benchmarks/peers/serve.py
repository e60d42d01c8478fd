"""Serves jobs to the benchmark: a line `<what> <job> <records>` comes in, a line of JSON goes out.

`run` runs the job into a sink that drops records and answers with the wall seconds; `digest` runs it into memory and
answers with a fingerprint of its results, so that it can be seen that all systems do the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Runner", "serve"]

PR_SET_CHILD_SUBREAPER = 36
"""Processes whose parent has gone become children of this one, so that their CPU time is still found."""

Runner = Callable[[str, int, bool], list[Any] | None]
"""Runs a job over so many records and returns its results if they are wanted."""


def serve(runner: Runner) -> None:
    """Answer until the input ends. What the system prints goes to standard error."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        what, job, records = line.split()
        began = time.perf_counter()
        results = runner(job, int(records), what == "digest")
        wall = time.perf_counter() - began
        answers.write(json.dumps(wall if results is None else fingerprint(results)) + "\n")


def fingerprint(results: list[Any]) -> str:
    """The same for the same results in any order."""
    lines = sorted(repr(result) for result in results)
    return f"{len(lines)} results, {hashlib.sha256('|'.join(lines).encode()).hexdigest()[:12]}"
