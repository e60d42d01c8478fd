"""`tidegate pipelines list|forget`: the pipelines on a checkpoint storage, running or not."""

from __future__ import annotations

import argparse
import sys

__all__ = ["register"]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `pipelines` to the commands."""
    parser = subparsers.add_parser("pipelines", help="the pipelines of a checkpoint storage")
    verbs = parser.add_subparsers(title="commands", required=True, metavar="what")
    listing = verbs.add_parser("list", help="list the pipelines with their newest checkpoints")
    forgetting = verbs.add_parser(
        "forget", help="delete a pipeline's checkpoints; its next start has no state"
    )
    forgetting.add_argument("pipeline")
    for verb, run in ((listing, _list), (forgetting, _forget)):
        verb.add_argument(
            "--root",
            metavar="URL",
            help="directory or URL of the checkpoints; default: state.checkpoints.dir",
        )
        verb.add_argument("--json", action="store_true", help="print one JSON document")
        verb.set_defaults(run=run)


def _list(arguments: argparse.Namespace) -> int:
    # What reads storages is loaded by these commands alone, so that the others start quickly.
    from tidegate.backends.storage import decisions_of
    from tidegate.runtime.checkpoint.record import read_record
    from tidegate.runtime.checkpoint.timeline import pipelines
    from tidegate.runtime.cli.storages import chosen_storage
    from tidegate.runtime.cli.tables import Table, Text, show_json, show_table
    from tidegate.twophase.process import alive

    storage = chosen_storage(arguments)
    known = sorted(pipelines(storage))
    records = {name: read_record(decisions_of(storage), name)[0] for name in known}
    rows = []
    for name, record in records.items():
        if record is not None:
            # A killed process could not write its state.
            dead = record.status == "running" and alive(record.lease) is False
            status = "killed" if dead else record.status
            rows.append(
                (name, status, record.lineage, record.newest_id, len(record.retained), record.lease.run)
            )
    columns = ("pipeline", "status", "lineage", "newest", "retained", "run")
    if arguments.json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows], sys.stdout)
    else:
        shown = [tuple(Text(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]
        show_table(Table(columns, shown), sys.stdout)
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    from tidegate.clock import SYSTEM_CLOCK
    from tidegate.runtime.checkpoint.deletion import forget
    from tidegate.runtime.cli.storages import chosen_storage
    from tidegate.runtime.cli.tables import show_json

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    count = forget(chosen_storage(arguments), arguments.pipeline, SYSTEM_CLOCK, say)
    if arguments.json:
        show_json({"pipeline": arguments.pipeline, "files": count}, sys.stdout)
    else:
        print(f"pipeline {arguments.pipeline!r} is forgotten: {count} files deleted")
    return 0
