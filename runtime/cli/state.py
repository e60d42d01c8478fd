"""`tidegate state`: shows, compares, exports and verifies the checkpoints of a pipeline.

Exit codes besides those of every command: 1 if nothing is held of the key that was asked for, or something is unsound.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

__all__ = ["register"]

_NEWEST: Final = {
    "--at": {"type": int, "metavar": "N", "help": "the checkpoint's number; default: the newest"}
}
_OPERATOR: Final = {"--operator": {"metavar": "UID", "help": "only this operator"}}
_STATES: Final = {**_OPERATOR, "--state": {"metavar": "NAME", "help": "only this state"}}
_KEY: Final = {"help": "as a Python or JSON literal, or a plain word; '\"7\"' is text"}
_PROGRAM: Final = {
    "--program": {
        "type": Path,
        "metavar": "FILE",
        "help": "the program: read from its sources the records that caused the changes",
    }
}
_ARGUMENTS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "list": {},
    "show": {"key": _KEY, **_NEWEST, **_STATES},
    "diff": {"before": {"type": int}, "after": {"type": int}, "--key": _KEY, **_STATES, **_PROGRAM},
    "history": {"key": _KEY, **_STATES, **_PROGRAM},
    "export": {
        "directory": {"type": Path},
        **_NEWEST,
        **_OPERATOR,
        "--format": {"choices": ["parquet", "jsonl"], "default": "parquet", "help": "default: parquet"},
        "--backend": {
            "default": "filesystem",
            "help": "backend that opens the state for Parquet; rocksdb if the state is larger than memory",
        },
    },
    "verify": {
        "--at": {"type": int, "metavar": "N", "help": "the checkpoint's number; default: all"},
        "--deep": {"action": "store_true", "help": "read every entry of the state"},
    },
}
_HELP: Final = {
    "list": "list pipelines and their retained checkpoints",
    "show": "show the state of a key in a checkpoint",
    "diff": "show the differences between two checkpoints, and what was read between them",
    "history": "show how the state of a key changed, checkpoint by checkpoint",
    "export": "write the state of a checkpoint as Parquet files or JSON lines",
    "verify": "check that checkpoints are complete and undamaged",
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `state` to the commands."""
    parser = subparsers.add_parser("state", help="inspect the checkpoints of a pipeline")
    verbs = parser.add_subparsers(title="commands", required=True, metavar="what", dest="what")
    for name, help_text in _HELP.items():
        verb = verbs.add_parser(name, help=help_text)
        verb.set_defaults(run=_run)
        verb.add_argument("pipeline", nargs="?" if name == "list" else None)
        for flag, settings in _ARGUMENTS[name].items():
            verb.add_argument(flag, **settings)
        verb.add_argument(
            "--root",
            metavar="URL",
            help="directory or URL of the checkpoints; default: state.checkpoints.dir",
        )
        verb.add_argument("--json", action="store_true", help="print one JSON document")


def _run(arguments: argparse.Namespace) -> int:
    # What reads state is loaded by this command alone, so that the others start quickly.
    from tidegate.runtime.cli.timeline import COMMANDS

    return COMMANDS[arguments.what](arguments)
