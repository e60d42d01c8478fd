"""`tidegate run job.py`: run a program, with settings from the command line."""

from __future__ import annotations

import argparse
import contextlib
import re
import runpy
import sys
import traceback
from pathlib import Path

from tidegate.errors import ConfigError, JobFailedError, TidegateError, UserCodeError
from tidegate.options import Layer, from_assignments, from_toml
from tidegate.runtime import options
from tidegate.runtime.alias import aliased
from tidegate.runtime.flink_conf import layer_of

__all__ = ["add_program", "register", "run"]

_OWN = re.compile(
    r"(?P<flag>--fresh|--standby|--allow-non-restored-state)|(?:-[sD]|--(?:savepoint|config)(?==|$)=?)(?P<value>.*)",
    re.DOTALL,
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the commands."""
    parser = subparsers.add_parser("run", help="run a program")
    add_program(parser)
    parser.set_defaults(run=run)


def add_program(parser: argparse.ArgumentParser) -> None:
    """What every command takes that runs a program's file."""
    _add_settings(parser)
    parser.add_argument(
        "--compat", choices=["pyflink"], help="the program is written for PyFlink: its imports mean tidegate"
    )
    parser.add_argument(
        "program",
        nargs=argparse.PARSER,
        help="the program's file; settings may follow it directly, then what the program itself takes, behind -- "
        "if it looks like ours",
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-s",
        "--savepoint",
        metavar="CHECKPOINT",
        help="go on from this checkpoint, by number or path, or savepoint",
    )
    parser.add_argument(
        "--allow-non-restored-state",
        action="store_true",
        help="leave state behind whose operator the program no longer has",
    )
    parser.add_argument(
        "--standby",
        action="store_true",
        help="wait while another process runs it, and take over when that is gone or hangs",
    )
    parser.add_argument("--fresh", action="store_true", help="begin a new history")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings in TOML, or in Flink's 'key: value' lines"
    )
    parser.add_argument(
        "-D", dest="settings", metavar="KEY=VALUE", action="append", default=[], help="any setting"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the program as `python job.py` would, in this process.

    Raises:
        ConfigError: there is no such file, or a setting is wrong.
    """
    job = Path(arguments.program[0])
    if not job.is_file():
        raise ConfigError(f"{job} is no file; expected the program to run")
    behind, own = _split(arguments.program[1:])
    options.set_command_line(
        from_assignments([*_settings(arguments), *_settings(behind)]),
        _config(behind.config or arguments.config),
    )
    sys.argv = [str(job), *own]
    sys.path.insert(0, str(job.resolve().parent))
    try:
        with aliased() if arguments.compat else contextlib.nullcontext():
            runpy.run_path(str(job), run_name="__main__")
    except TidegateError as error:
        _show_user_failure(error)
        raise
    return 0


def _split(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Settings that directly follow the program's file, and what is the program's own."""
    parser = argparse.ArgumentParser(prog="tidegate run", add_help=False, allow_abbrev=False)
    _add_settings(parser)
    end = 0
    while end < len(arguments) and (taken := _OWN.fullmatch(arguments[end])) is not None:
        end += 1 if taken["value"] or taken["flag"] else 2
    own = arguments[end:]
    return parser.parse_args(arguments[:end]), own[1:] if own[:1] == ["--"] else own


def _settings(arguments: argparse.Namespace) -> list[str]:
    settings = list(arguments.settings)
    if arguments.savepoint is not None:
        settings.append(f"execution.savepoint.path={arguments.savepoint}")
    if arguments.allow_non_restored_state:
        settings.append("execution.savepoint.ignore-unclaimed-state=true")
    if arguments.standby:
        settings.append("high-availability.standby=true")
    if arguments.fresh:
        settings.append("execution.fresh=true")
    return settings


def _config(path: Path | None) -> Layer | None:
    if path is None:
        return None
    return from_toml(path) if path.suffix == ".toml" else layer_of(path)


def _show_user_failure(error: BaseException | None) -> None:
    """The user's own traceback, without the frames that carried it here."""
    while isinstance(error, JobFailedError):
        error = error.__cause__
    if isinstance(error, UserCodeError) and error.__cause__ is not None:
        traceback.print_exception(error.__cause__)
