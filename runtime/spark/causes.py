"""Causes of failed Spark jobs: Spark's error text, shortened to its first line and the last line of a Python traceback.

Example:
    >>> said = "An exception was thrown from the Python worker: Traceback (most recent call last):\\n  File ...\\nKeyError: 'a'\\n"
    >>> str(Cause.of(RuntimeError(said)))
    "RuntimeError: An exception was thrown from the Python worker: KeyError: 'a'"
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["Cause", "machines_that_failed"]

_TRACEBACK = "Traceback (most recent call last):"
_TASKS = 1_000


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job failed; unknown parts are empty."""

    text: str
    """Spark's own first line."""
    python: str
    """The last line of a Python process's traceback, if there is one."""

    @staticmethod
    def of(error: Exception) -> Cause:
        """The cause of an exception: a Java error, or a lost connection to the Java process."""
        java = getattr(error, "java_exception", None)
        text = str(java.getMessage()) if java is not None else f"{type(error).__name__}: {error}"
        return Cause(text.strip().splitlines()[0], _last_word(text))

    def __str__(self) -> str:
        if not self.python:
            return self.text
        return f"{self.text.removesuffix(_TRACEBACK).rstrip()} {self.python}"


def machines_that_failed(context: SparkContext, group: str) -> str:
    """The hosts where tasks of a job group failed; Spark shows them in its UI, but not always in the exception."""
    found: set[str] = set()
    with contextlib.suppress(Exception):  # the reason is known without it
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
        for stage in (stage for job in jobs if job is not None for stage in job.stageIds):
            tasks = store.taskList(stage, 0, _TASKS)
            each = [tasks.apply(number) for number in range(tasks.size())]
            found |= {task.host() for task in each if task.status() == "FAILED"}
    return ", ".join(sorted(found)) or "a machine that Spark does not name"


def _last_word(text: str) -> str:
    _, found, traced = text.rpartition(_TRACEBACK)
    if not found:
        return ""
    return next((line for line in traced.splitlines() if line and not line[0].isspace()), "")
