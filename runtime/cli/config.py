"""`tidegate config`: shows how a Flink configuration file is translated, or all known keys."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from tidegate.runtime.cli.tables import Table, Text, show_json, show_table
from tidegate.runtime.flink_conf import FlinkSetting, flink_keys, read_file

__all__ = ["register", "run"]

_SECRET: Final = re.compile(r"password|cookie|secret")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `config` to the commands."""
    parser = subparsers.add_parser("config", help="show how Flink's settings are translated")
    parser.add_argument("file", nargs="?", type=Path, help="a flink-conf.yaml; default: all known keys")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each setting.

    Raises:
        ConfigError: the file cannot be read, or a key or value in it is unknown or invalid.
    """
    settings = _known() if arguments.file is None else read_file(arguments.file)
    rows = [(each.key, _shown(each), each.status, each.to or each.why) for each in settings]
    columns = ("key", "value", "status", "here")
    if arguments.json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows], sys.stdout)
    else:
        show_table(Table(columns, [tuple(map(Text, row)) for row in rows]), sys.stdout)
    return 0


def _known() -> list[FlinkSetting]:
    keys = sorted(flink_keys().values(), key=lambda key: key.name)
    return [FlinkSetting(key.name, key.kind, key.status, key.to, None, key.why) for key in keys]


def _shown(setting: FlinkSetting) -> str:
    return "***" if _SECRET.search(setting.key) else setting.value
