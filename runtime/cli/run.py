"""`tidegate run job.py`: run a program, with settings from the command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigError, JobFailedError, TidegateError, UserCodeError
from tidegate.options import Layer, from_assignments, from_toml
from tidegate.runtime import options
from tidegate.runtime.alias import aliased
from tidegate.runtime.control.restarting import RESTARTING
from tidegate.runtime.flink_conf import read_layer

__all__ = ["add_program", "again", "register", "run", "take_flags"]

_OWN: Final = re.compile(
    r"(?P<flag>--fresh|--standby|--take-over|--allow-non-restored-state)"
    r"|(?:-[sD]|--(?:savepoint|config|parallelism|on|accept-loss|replay-from|map)(?==|$)=?)(?P<value>.*)",
    re.DOTALL,
)
"""Short options allowed after the program's file; other short options there are the program's."""

_VALUES: Final = {
    "savepoint": "execution.savepoint.path",
    "accept_loss": "execution.accept-loss",
    "replay_from": "execution.replay-from",
    "parallelism": "parallelism.default",
    "on": "execution.target",
}
_STANDBY: Final = "high-availability.standby=true"
_MAIN: Final = "tidegate.runtime.cli.main"
_ONCE: Final = frozenset(
    {"execution.fresh", "execution.savepoint.path", "execution.accept-loss", "execution.replay-from"}
    | {"execution.take-over", "execution.savepoint.map"}
)
"""Settings of one start; a restart drops them and resumes from the last checkpoint."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line sets, in front of the program's file and behind it; and the program's own arguments."""

    settings: list[str]
    config: Path | None
    own: list[str]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the commands."""
    parser = subparsers.add_parser("run", help="run a program")
    parser.add_argument(
        "-d", "--detached", action="store_true", help="run it in the background and print its job id"
    )
    add_program(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.detached:
        from tidegate.runtime.cli.detached import start

        command = again(arguments, anew=False)
        return start(command, stands_by=_STANDBY in command)
    RESTARTING.offered = True
    try:
        code = run(arguments)
    finally:
        RESTARTING.offered = False
    if RESTARTING.asked:
        sys.stdout.flush()
        sys.stderr.flush()
        command = again(arguments, anew=True)
        os.execv(command[0], command)
    return code


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands that run a program's file."""
    _add_settings(parser)
    parser.add_argument(
        "--compat",
        choices=["pyflink"],
        help="run a program written for PyFlink: its imports of pyflink load tidegate",
    )
    parser.add_argument(
        "program",
        nargs=argparse.PARSER,
        help="the program's file; settings may follow it, then the program's own arguments, after -- if they look like "
        "settings",
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-s",
        "--savepoint",
        metavar="CHECKPOINT",
        help="start from this checkpoint (number or path) or savepoint (path)",
    )
    parser.add_argument(
        "-n",
        "--allow-non-restored-state",
        action="store_true",
        help="drop state whose operator is not in the program any more",
    )
    parser.add_argument(
        "--standby",
        action="store_true",
        help="wait while another process runs it, and take over when that process has ended or hangs",
    )
    parser.add_argument(
        "--map",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="restore the state of operator OLD to operator NEW, by uid; OLD= drops it; may be repeated",
    )
    parser.add_argument("--fresh", action="store_true", help="start without state, in a new lineage")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings in TOML, or in Flink's 'key: value' lines"
    )
    parser.add_argument(
        "--accept-loss",
        metavar="N",
        help="resume from checkpoint N although some of its output is lost, or may be lost",
    )
    parser.add_argument(
        "--replay-from",
        metavar="N",
        help="go back to checkpoint N and write all later output again, after a part of it was lost",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="remove the claims of another pipeline, which will never run again, on the same output",
    )
    parser.add_argument("-p", "--parallelism", metavar="N", help="subtasks per operator")
    parser.add_argument("--on", metavar="WHERE", help="embedded, inline, or the URL of a Spark master")
    parser.add_argument(
        "-D", dest="settings", metavar="KEY=VALUE", action="append", default=[], help="any setting"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the program as `python job.py` would, in this process.

    Raises:
        ConfigError: the file does not exist, or a setting is wrong.
    """
    job = Path(arguments.program[0])
    if not job.is_file():
        raise ConfigError(f"{job} is not a file; expected the program to run")
    asked = _asked(arguments)
    options.set_command_line(from_assignments(asked.settings), _config(asked.config))
    own = asked.own
    sys.argv = [str(job), *own]
    sys.path.insert(0, str(job.resolve().parent))
    try:
        with aliased() if arguments.compat else contextlib.nullcontext():
            runpy.run_path(str(job), run_name="__main__")
    except TidegateError as error:
        _show_user_failure(error)
        raise
    return 0


def again(arguments: argparse.Namespace, *, anew: bool) -> list[str]:
    """The command that runs the same program with the same settings; with `anew`, from its newest checkpoint."""
    asked = _asked(arguments)
    kept = [each for each in asked.settings if not (anew and each.partition("=")[0].strip() in _ONCE)]
    compat = ["--compat", arguments.compat] if arguments.compat else []
    config = ["--config", str(asked.config.absolute())] if asked.config else []
    assigned = (part for each in kept for part in ("-D", each))
    program = Path(arguments.program[0]).absolute()
    python = [sys.executable, "-P", "-m", _MAIN]
    return [*python, "run", *compat, *config, *assigned, str(program), "--", *asked.own]


def take_flags(arguments: argparse.Namespace, add: Callable[[argparse.ArgumentParser], None]) -> None:
    """Take a command's own flags from behind the program's file, too; what follows `--` is the program's."""
    program, *behind = arguments.program
    end = behind.index("--") if "--" in behind else len(behind)
    parser = argparse.ArgumentParser(prog="tidegate", add_help=False, allow_abbrev=False)
    add(parser)
    _, left = parser.parse_known_args(behind[:end], arguments)
    arguments.program = [program, *left, *behind[end:]]


def _asked(arguments: argparse.Namespace) -> _Asked:
    behind, own = _split(arguments.program[1:])
    return _Asked([*_settings(arguments), *_settings(behind)], behind.config or arguments.config, own)


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
    if arguments.allow_non_restored_state:
        settings.append("execution.savepoint.ignore-unclaimed-state=true")
    if arguments.standby:
        settings.append(_STANDBY)
    if arguments.fresh:
        settings.append("execution.fresh=true")
    if arguments.take_over:
        settings.append("execution.take-over=true")
    if arguments.map:
        settings.append(f"execution.savepoint.map={','.join(arguments.map)}")
    for given, key in _VALUES.items():
        if (value := getattr(arguments, given)) is not None:
            settings.append(f"{key}={value}")
    return settings


def _config(path: Path | None) -> Layer | None:
    if path is None:
        return None
    return from_toml(path) if path.suffix == ".toml" else read_layer(path)


def _show_user_failure(error: BaseException | None) -> None:
    """The user's own traceback, without the frames that carried it here."""
    while isinstance(error, JobFailedError):
        error = error.__cause__
    if isinstance(error, UserCodeError) and error.__cause__ is not None:
        traceback.print_exception(error.__cause__)
