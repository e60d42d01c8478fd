"""`tidegate run job.py`: run a program, with settings from the command line."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path

from tidegate.errors import ConfigError, JobFailedError, TidegateError, UserCodeError
from tidegate.options import from_assignments
from tidegate.runtime import options

__all__ = ["register", "run"]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the commands."""
    parser = subparsers.add_parser("run", help="run a program")
    parser.add_argument("job", help="the program's file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program itself takes")
    parser.add_argument(
        "-s", "--savepoint", metavar="CHECKPOINT", help="go on from this checkpoint, by number or path"
    )
    parser.add_argument("--fresh", action="store_true", help="begin a new history")
    parser.add_argument(
        "-D", dest="settings", metavar="KEY=VALUE", action="append", default=[], help="any setting"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the program as `python job.py` would, in this process.

    Raises:
        ConfigError: there is no such file, or a setting is wrong.
    """
    job = Path(arguments.job)
    if not job.is_file():
        raise ConfigError(f"{job} is no file; expected the program to run")
    settings = list(arguments.settings)
    if arguments.savepoint is not None:
        settings.append(f"execution.savepoint.path={arguments.savepoint}")
    if arguments.fresh:
        settings.append("execution.fresh=true")
    options.set_command_line(from_assignments(settings))
    sys.argv = [str(job), *arguments.arguments]
    sys.path.insert(0, str(job.resolve().parent))
    try:
        runpy.run_path(str(job), run_name="__main__")
    except TidegateError as error:
        _show_user_failure(error)
        raise
    return 0


def _show_user_failure(error: BaseException | None) -> None:
    """The user's own traceback, without the frames that carried it here."""
    while isinstance(error, JobFailedError):
        error = error.__cause__
    if isinstance(error, UserCodeError) and error.__cause__ is not None:
        traceback.print_exception(error.__cause__, chain=False)
