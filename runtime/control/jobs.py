"""Registry of this user's runs on this machine: each run keeps a note with its address while it is alive.

The notes are files only their owner can read, since they hold what opens the control socket. A note whose process is
has ended is removed by the next command that reads it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidegate.backends.private import make_directories
from tidegate.clock import new_id
from tidegate.errors import ConfigError
from tidegate.ids import PipelineId, RunId
from tidegate.runtime.options import default_root
from tidegate.twophase.fencing import Lease
from tidegate.twophase.process import alive

__all__ = ["Job", "find_job", "known_jobs", "noted"]


class Job(msgspec.Struct, frozen=True):
    """A run and its address."""

    run: RunId
    name: str
    pipeline: PipelineId
    target: str
    root: str
    """URL of its checkpoint storage."""
    started_ms: int
    process: Lease
    socket: str
    token: str
    http: str | None = None
    """Address of its HTTP server, if it has one."""


@contextlib.contextmanager
def noted(job: Job) -> Iterator[None]:
    """Keep a note of a run while it is alive.

    Raises:
        OSError: it cannot be written.
    """
    directory = _directory()
    make_directories(directory)
    note = directory / f"{job.run}.json"
    unfinished = directory / f".{new_id()}"
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(job))
    unfinished.rename(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def known_jobs() -> list[Job]:
    """The runs that are alive, the oldest first."""
    found = [job for note in _directory().glob("*.json") if (job := _read(note)) is not None]
    return sorted(found, key=lambda job: (job.started_ms, job.run))


def find_job(which: str | None) -> Job:
    """The run with this id or the beginning of one, or of this pipeline or job name; without any the only run.

    Raises:
        ConfigError: no run matches, or more than one.
    """
    jobs = known_jobs()
    if which is None:
        if len(jobs) == 1:
            return jobs[0]
        if not jobs:
            raise ConfigError("this user runs no job on this machine; start one with tidegate run")
        names = ", ".join(f"{job.run} ({job.pipeline})" for job in jobs)
        raise ConfigError(
            f"{len(jobs)} jobs are running; got no name; give the pipeline or id of one: {names}"
        )
    exact = [job for job in jobs if which in (job.run, job.pipeline, job.name)]
    found = exact or [job for job in jobs if which and job.run.startswith(which)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{job.run} ({job.pipeline})" for job in found or jobs) or "none"
    if found:
        raise ConfigError(f"{which!r} matches more than one job: {known}; give the id of one of them")
    raise ConfigError(f"this user runs no job {which!r} on this machine; running jobs: {known}")


def _directory() -> Path:
    # No pipeline can be called so, because names of pipelines begin with a letter, a digit or an underscore.
    return default_root(os.environ) / ".jobs"


def _read(note: Path) -> Job | None:
    try:
        job = msgspec.json.decode(note.read_bytes(), type=Job)
    except (OSError, msgspec.DecodeError):
        return None
    if alive(job.process) is False:
        note.unlink(missing_ok=True)
        return None
    return job
