"""`tidegate plan --against SNAPSHOT job.py`: shows what a start from a snapshot would restore.

Exit code 4 if something must be decided or repaired first.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from tidegate.runtime.cli import explain, run as run_command
from tidegate.runtime.cli.tables import Table, Text, show_json, show_table

if TYPE_CHECKING:
    from tidegate.runtime.checkpoint.manifest import Manifest
    from tidegate.runtime.preflight.outlook import Outlook

__all__ = ["register", "run"]

_UNDECIDED = 4
_COLUMNS = ("operator", "state", "kind", "subtasks", "result")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plan` to the commands."""
    parser = subparsers.add_parser(
        "plan",
        help="show what a start from a snapshot would restore, lose or reject; reads and writes no records",
    )
    _add_flags(parser)
    run_command.add_program(parser)
    parser.set_defaults(run=run)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against",
        metavar="SNAPSHOT",
        help="a savepoint or checkpoint, by path, or a retained checkpoint's number; default: the one that the start would resume from",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Show the outlook of the first program that the file executes.

    Raises:
        ConfigError: the snapshot does not exist, or the program could not start.
        StateCorruptError: a file of the snapshot is missing or damaged.
    """
    from tidegate.backends.storage import open_storage
    from tidegate.runtime.launch import checkpoint_root, program_of
    from tidegate.runtime.preflight.checks import connectors
    from tidegate.runtime.preflight.outlook import chosen, outlook

    run_command.take_flags(arguments, _add_flags)
    launch = explain.launch_of(arguments)
    program = program_of(launch)
    against = arguments.against or launch.options.savepoint
    with (
        checkpoint_root(launch) as root,
        chosen(open_storage(root), program.pipeline, against) as (manifest, files),
    ):
        found = outlook(program, manifest, files)
    # What a start reads and writes is looked at as by `check`; only what it would fail with is told here.
    failing = [each for each in connectors(program) if each.verdict == "problem"]
    found = replace(
        found, obstacles=found.obstacles + tuple(f"{each.subject}: {each.found}" for each in failing)
    )
    if arguments.json:
        show_json(asdict(found) | {"checkpoint": manifest.checkpoint}, sys.stdout)
    else:
        _show(found, manifest)
    return _UNDECIDED if found.obstacles else 0


def _show(found: Outlook, manifest: Manifest) -> None:
    rows = []
    for each in found.operators:
        subtasks = f"{each.before or 'none'} -> {each.after or 'none'}"
        rows.append((each.uid, "", "", subtasks, f"{each.verdict}{each.why and ': '}{each.why}"))
        rows += [(each.uid, state.name, state.kind, "", state.verdict) for state in each.states]
    print(f"checkpoint {manifest.checkpoint} of pipeline {manifest.pipeline!r}, run {manifest.run}")
    show_table(Table(_COLUMNS, [tuple(map(Text, row)) for row in rows]), sys.stdout)
    for obstacle in found.obstacles:
        print(f"to be decided: {obstacle}")
