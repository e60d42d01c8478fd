"""`tidegate check job.py`: tests before a start whether the program can run.

Exit code 1 if the start would fail.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from tidegate.runtime.cli import explain, run as run_command
from tidegate.runtime.cli.tables import Table, Text, show_json, show_table

__all__ = ["register", "run"]

_COLUMNS = ("verdict", "subject", "found", "remedy")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `check` to the commands."""
    parser = subparsers.add_parser(
        "check",
        help="test before a start whether the program can run: storage, state, connectors; reads and writes no records",
    )
    _add_flags(parser)
    run_command.add_program(parser)
    parser.set_defaults(run=run)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Show what was found out about the first program that the file executes.

    Raises:
        ConfigError: the file does not exist or executes no program, or a setting is wrong.
    """
    from tidegate.backends.storage import open_storage
    from tidegate.runtime.launch import checkpoint_root, program_of
    from tidegate.runtime.preflight.checks import preflight

    run_command.take_flags(arguments, _add_flags)
    launch = explain.launch_of(arguments)
    with checkpoint_root(launch) as root:
        found = list(
            preflight(
                program_of(launch), open_storage(root, launch.options.new_mode, launch.options.components)
            )
        )
    sound = all(each.verdict != "problem" for each in found)
    if arguments.json:
        show_json({"ok": sound, "findings": [asdict(each) for each in found]}, sys.stdout)
    else:
        rows = [(each.verdict, each.subject, each.found, each.remedy) for each in found]
        show_table(Table(_COLUMNS, [tuple(map(Text, row)) for row in rows]), sys.stdout)
    return 0 if sound else 1
