"""`tidegate list|info|checkpoints` and `stop|cancel|savepoint|restart`: commands for running jobs on this machine.

A job is named by its id, by as much of the id as tells it apart, or by the name of its pipeline. `info`, `checkpoints`
and `stop` need no name where one job runs.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

__all__ = ["register"]

_JSON: Final = {"--json": {"action": "store_true", "help": "print one JSON document"}}
_PLACE: Final = {
    "--to": {
        "metavar": "DIR",
        "help": "directory or URL to write it below; default: state.savepoints.dir of the job",
    },
    "--native": {"action": "store_true", "help": "copy the checkpoint's files instead of writing Parquet"},
}
_WITH_SAVEPOINT: Final = {
    "-s": {"dest": "savepoint", "action": "store_true", "help": "take a savepoint first"},
    **_PLACE,
}
_COMMANDS: Final[dict[str, tuple[str, dict[str, dict[str, Any]]]]] = {
    "list": ("list the running jobs", _JSON),
    "info": (
        "show the state of a job",
        {**_JSON, "--watch": {"action": "store_true", "help": "refresh every second until the job ends"}},
    ),
    "checkpoints": ("list the newest checkpoints of a job", _JSON),
    "stop": (
        "take a final checkpoint and end the job; the next start resumes from it",
        {
            **_WITH_SAVEPOINT,
            "--drain": {"action": "store_true", "help": "fire all event-time windows and timers first"},
            **_JSON,
        },
    ),
    "cancel": (
        "end a job at once, or after a savepoint; the next start has no state",
        {**_WITH_SAVEPOINT, **_JSON},
    ),
    "restart": ("stop a job and start its program again in the same process", _JSON),
}

_OF_THE_ONLY_JOB: Final = ("info", "checkpoints", "stop")
"""Commands that may omit the job if only one runs; the others cannot be undone."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    for name, (meaning, flags) in _COMMANDS.items():
        parser = subparsers.add_parser(name, help=meaning)
        if name != "list":
            optional: dict[str, Any] = {"nargs": "?"} if name in _OF_THE_ONLY_JOB else {}
            parser.add_argument("job", help="job id, a prefix of it, or the pipeline", **optional)
        _add(parser, name, flags)
    parser = subparsers.add_parser("savepoint", help="take a savepoint of a running job, or delete one")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("job", nargs="?", help="job id, a prefix of it, or the pipeline")
    which.add_argument(
        "--dispose", metavar="PLACE", help="delete the savepoint in this directory or at this URL"
    )
    root = {"--root": {"metavar": "URL", "help": "directory or URL of the checkpoints, for --dispose"}}
    _add(parser, "savepoint", {**_PLACE, **_JSON, **root})


def _add(parser: argparse.ArgumentParser, name: str, flags: dict[str, dict[str, Any]]) -> None:
    for flag, settings in flags.items():
        parser.add_argument(flag, **settings)
    parser.set_defaults(run=_run, what=name)


def _run(arguments: argparse.Namespace) -> int:
    # What speaks to jobs is loaded by these commands alone, so that the others start quickly.
    from tidegate.runtime.cli import commands, job_views

    return {**job_views.COMMANDS, **commands.COMMANDS}[arguments.what](arguments)
