"""`tidegate stop`, `cancel`, `savepoint` and `restart`: send a command to a job and wait for its result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from tidegate.errors import ConfigError, UnavailableError
from tidegate.runtime.cli.starting import await_start, runs
from tidegate.runtime.cli.tables import show_json
from tidegate.runtime.control import protocol
from tidegate.runtime.control.control_client import ControlClient
from tidegate.runtime.control.jobs import Job, find_job
from tidegate.twophase.process import alive

__all__ = ["COMMANDS"]


def _stop(arguments: argparse.Namespace) -> int:
    command = protocol.Stop(
        savepoint=arguments.savepoint,
        directory=_directory(arguments),
        format_type="native" if arguments.native else "canonical",
        drain=arguments.drain,
    )
    return _command(arguments, command, "is stopped; the next start resumes from its last checkpoint")


def _cancel(arguments: argparse.Namespace) -> int:
    if not arguments.savepoint:
        _directory(arguments)
        return _command(arguments, protocol.Cancel(), "is cancelled; the next start has no state")
    command = protocol.Stop(
        savepoint=True,
        directory=_directory(arguments),
        format_type="native" if arguments.native else "canonical",
        for_good=True,
    )
    return _command(
        arguments,
        command,
        "is cancelled; the next start has no state, unless it starts from the savepoint with -s",
    )


def _savepoint(arguments: argparse.Namespace) -> int:
    if arguments.dispose is not None:
        # What opens storages is loaded where it is needed; the other commands start quickly without.
        from tidegate.runtime.checkpoint.deletion import dispose
        from tidegate.runtime.cli.storages import chosen_storage

        count = dispose(arguments.dispose, chosen_storage(arguments))
        _say(arguments, {"disposed": arguments.dispose, "files": count}, f"{count} files deleted")
        return 0
    place = _absolute(arguments.to)
    form: Any = "native" if arguments.native else "canonical"
    return _command(arguments, protocol.Savepoint(place, form), "keeps running")


def _restart(arguments: argparse.Namespace) -> int:
    job = find_job(arguments.job)
    with ControlClient(job) as caller:
        caller.outcome(caller.trigger(protocol.Restart()))

    def follows(other: Job) -> bool:
        same_process = other.process == msgspec.structs.replace(job.process, run=other.run)
        return same_process and other.run != job.run and runs(other)

    started = await_start(follows, lambda: alive(job.process) is True)
    if started is None:
        raise UnavailableError(
            f"job {job.run} is stopped, and its program ended before the next job started; see the program's output"
        )
    _say(
        arguments,
        {"stopped": job.run, "job": started.run},
        f"job {started.run} resumes from the last checkpoint of {job.run}",
    )
    return 0


def _command(arguments: argparse.Namespace, command: protocol.Question, what: str) -> int:
    job = find_job(arguments.job)
    with ControlClient(job) as caller:
        trigger = caller.trigger(command)
        done = caller.outcome(trigger)
    if done.state == "finished":
        what = "had read all its input and is finished; the next start has no state"
    told = {"job": job.run, "trigger": trigger, "savepoint": done.place, "state": done.state}
    _say(arguments, told, *([f"savepoint {done.place}"] if done.place else []), f"job {job.run} {what}")
    return 0


def _directory(arguments: argparse.Namespace) -> str | None:
    """Where the savepoint shall go.

    Raises:
        ConfigError: options of a savepoint were given without -s.
    """
    if not arguments.savepoint and (arguments.to is not None or arguments.native):
        raise ConfigError(
            "--to and --native are options of a savepoint; got no -s; add -s, or leave them out"
        )
    return _absolute(arguments.to)


def _absolute(place: str | None) -> str | None:
    """The job may run in another directory than the command."""
    return place if place is None or "://" in place else str(Path(place).absolute())


def _say(arguments: argparse.Namespace, told: dict[str, Any], *lines: str) -> None:
    if arguments.json:
        show_json(told, sys.stdout)
    else:
        print("\n".join(lines))


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "stop": _stop,
    "cancel": _cancel,
    "savepoint": _savepoint,
    "restart": _restart,
}
