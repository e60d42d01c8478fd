"""`tidegate audit`: compares the input and the output of a pipeline, and names the records that are wrong.

Exit codes: 0 everything is there once and nothing else, 1 it is not, 2 bad use.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.runtime.cli.tables import Table, Text, show_json, show_table

if TYPE_CHECKING:
    from tidegate.connectors.spi import Remaining
    from tidegate.runtime.audit.findings import Side, Verdict
    from tidegate.runtime.audit.rule import Rule
    from tidegate.runtime.checkpoint.manifest import Manifest

__all__ = ["register", "run"]

_NAMED = 10
_PARTS = 8
"""Up to this many parts are listed with their ranges; above it only their number is shown."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `audit` to the commands."""
    parser = subparsers.add_parser(
        "audit",
        help="compare the input and output of a pipeline; name the records that are missing or duplicated",
    )
    parser.add_argument(
        "input",
        help="what the pipeline reads: a path, or kafka://<brokers>/<topic>; options after '?', such as ?format=json",
    )
    parser.add_argument("output", help="what the pipeline writes, in the same form")
    parser.add_argument(
        "--key",
        metavar="KEY",
        help="what to compare of a record: field names such as id,user.name, or 'record[\"id\"] // 2'",
    )
    parser.add_argument("--input-key", metavar="KEY", help="the same, for input records only")
    parser.add_argument("--output-key", metavar="KEY", help="the same, for output records only")
    parser.add_argument(
        "--expect",
        metavar="FILE:NAME",
        help="a function that returns the output records expected for an input record",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="WHERE",
        help="expect only the output of records read before this checkpoint: the path of a checkpoint or savepoint, or "
        "the name of a pipeline for its newest settled checkpoint",
    )
    parser.add_argument(
        "--source", metavar="UID", help="the source that reads this input, if the pipeline has several"
    )
    parser.add_argument(
        "--root", metavar="URL", help="directory or URL of the checkpoints; default: state.checkpoints.dir"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="local directory for working files; default: the system's temporary directory",
    )
    parser.add_argument(
        "--named",
        type=int,
        default=_NAMED,
        metavar="N",
        help="at most this many records named of each kind; default: %(default)s",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare, and say what was found.

    Raises:
        ConfigError: there is nothing to compare, or an argument is wrong.
        RecordError: a record cannot be read or compared.
        UnavailableError: a system did not answer.
    """
    from tidegate.clock import SYSTEM_CLOCK
    from tidegate.runtime.audit.comparison import Comparison

    if arguments.named < 1:
        raise ConfigError(f"--named is {arguments.named}; expected at least 1")
    rule = _rule(arguments)
    remaining, checkpoint = None, None
    if arguments.checkpoint is not None:
        manifest = _manifest(arguments)
        remaining, checkpoint = _remaining(manifest, arguments.source), manifest.checkpoint
    directory = arguments.directory or Path(tempfile.gettempdir())
    comparison = Comparison(arguments.input, arguments.output, rule, directory, SYSTEM_CLOCK, arguments.named)
    verdict = comparison.verdict(remaining, checkpoint)
    if arguments.json:
        show_json(verdict.as_json(), sys.stdout)
    else:
        _show(verdict)
    return 0 if verdict.proven else 1


def _rule(arguments: argparse.Namespace) -> Rule:
    from tidegate.runtime.audit.rule import Rule, key_of, load_function, same

    given, read, written = arguments.key, arguments.input_key, arguments.output_key
    if given is not None and (read is not None or written is not None):
        raise ConfigError(
            "--key is for both sides; got --input-key or --output-key too; give either --key or the other two"
        )
    read, written = read or given, written or given
    if arguments.expect is not None and arguments.input_key is not None:
        raise ConfigError("--expect and --input-key exclude each other; got both; give one of them")
    return Rule(
        load_function(arguments.expect) if arguments.expect is not None else None,
        key_of(read) if read is not None else same,
        key_of(written) if written is not None else same,
    )


def _manifest(arguments: argparse.Namespace) -> Manifest:
    """The checkpoint, whose output is visible."""
    from tidegate.backends.storage import decisions_of
    from tidegate.ids import PipelineId
    from tidegate.runtime.checkpoint.archive import Archive
    from tidegate.runtime.checkpoint.record import read_record
    from tidegate.runtime.checkpoint.savepoint import open_settled
    from tidegate.runtime.cli.storages import chosen_storage

    name: str = arguments.checkpoint
    if "/" in name:
        return open_settled(name).manifest
    storage = chosen_storage(arguments)
    record, _ = read_record(decisions_of(storage), PipelineId(name))
    archive = Archive(storage.blobs, decisions_of(storage))
    newest = archive.newest_settled(record.retained) if record is not None else None
    if newest is None:
        raise ConfigError(
            f"pipeline {name!r} has no settled checkpoint in {storage.url}; see tidegate pipelines list"
        )
    return archive.load(newest)


def _remaining(manifest: Manifest, uid: str | None) -> Remaining:
    """What is still to be read of a source."""
    from tidegate.connectors.spi import Remaining

    sources = {each.uid: each for each in manifest.operators if each.coordinator is not None}
    chosen = [each for each in sources.values() if uid in (None, each.uid)]
    if len(chosen) != 1:
        asked = "several sources" if uid is None else f"no source {uid!r}"
        raise ConfigError(
            f"checkpoint {manifest.checkpoint} has {asked}; name one with --source: {', '.join(sorted(sources)) or 'none'}"
        )
    (source,) = chosen
    assert source.coordinator is not None
    return Remaining(source.splits, source.coordinator)


def _show(verdict: Verdict) -> None:
    upto = f" before checkpoint {verdict.checkpoint}" if verdict.checkpoint is not None else ""
    print(f"input   {_side(verdict.input)}{upto}")
    print(f"output  {_side(verdict.output)}")
    for side in (verdict.input, verdict.output):
        for hidden in side.hidden:
            print(f"not seen: {hidden}")
    if verdict.proven:
        print(
            f"proven: all {verdict.expected:,} expected records are in the output, each once, and no others"
        )
        return
    told = ", ".join(f"{count:,} {kind}" for kind, count in verdict.counts.items() if count)
    print(f"NOT PROVEN: of {verdict.expected:,} expected records: {told}")
    rows = [(each.kind, ", ".join(each.places), each.record) for each in verdict.findings]
    show_table(Table(("what", "where", "record"), [tuple(map(Text, row)) for row in rows]), sys.stdout)


def _side(side: Side) -> str:
    ranges = [f"{name} {unit}s {start} to {end}" for name, unit, start, end in side.ranges]
    shown = ", ".join(ranges) if len(ranges) <= _PARTS else f"{len(ranges)} parts"
    return f"{side.name}: {side.records:,} records" + (f" ({shown})" if shown else "")
