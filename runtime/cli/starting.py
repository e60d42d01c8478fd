"""Waiting for a job that another process starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import UnavailableError
from tidegate.runtime.control.control_client import ControlClient
from tidegate.runtime.control.jobs import Job, known_jobs

__all__ = ["await_start", "runs"]

_LOOK_S: Final = 0.05


def await_start(wanted: Callable[[Job], bool], lives: Callable[[], bool]) -> Job | None:
    """The first job that `wanted` is true of; None if the process that shall start it does not live any more."""
    while True:
        living = lives()
        job = next(filter(wanted, known_jobs()), None)
        if job is not None or not living:
            return job
        SYSTEM_CLOCK.sleep(_LOOK_S)


def runs(job: Job) -> bool:
    """Whether a job is beyond its start."""
    try:
        with ControlClient(job) as caller:
            return caller.look().state != "created"
    except UnavailableError:
        return False
