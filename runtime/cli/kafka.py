"""`tidegate kafka txn list|commit|abort`: open transactions of Kafka sinks whose pipeline does not end them."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tidegate.errors import ConfigError

__all__ = ["register"]


class _Transaction(Protocol):
    transactional_id: str
    producer_id: int
    epoch: int
    since_ms: int
    timeout_ms: int
    prepared: bool
    partitions: tuple[str, ...]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `kafka` to the commands."""
    kafka = subparsers.add_parser("kafka", help="transactions of Kafka sinks")
    transactions = kafka.add_subparsers(title="commands", required=True, metavar="what")
    parser = transactions.add_parser(
        "txn", help="open transactions: each blocks read_committed consumers of its partitions"
    )
    verbs = parser.add_subparsers(title="commands", required=True, metavar="verb")
    listing = verbs.add_parser("list", help="list the open transactions of sinks")
    listing.set_defaults(run=_list, ids=[])
    for verb, what in (
        ("commit", "commit them: their records become visible, even if no checkpoint decided so"),
        ("abort", "abort them: their records are lost, their producers are fenced"),
    ):
        ending = verbs.add_parser(verb, help=what)
        ending.add_argument("ids", nargs="*", metavar="ID", help="transactional ids, as `list` shows them")
        ending.add_argument("--dry-run", action="store_true", help="show what would be done, change nothing")
        ending.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        ending.set_defaults(run=_end, verb=verb)
        _common(ending)
    _common(listing)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", required=True, help="bootstrap servers, such as host:9092")
    parser.add_argument("--prefix", help="only transactional ids with this prefix")
    parser.add_argument(
        "--properties", metavar="FILE", help="file with further client settings, one key=value per line"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _list(arguments: argparse.Namespace) -> int:
    with _connected(arguments) as cluster:
        _show(cluster.under(arguments.prefix), arguments)
    return 0


def _end(arguments: argparse.Namespace) -> int:
    verb, ids, prefix = arguments.verb, arguments.ids, arguments.prefix
    if bool(ids) == (prefix is not None):
        raise ConfigError(
            f"tidegate kafka txn {verb} needs either ids or --prefix; name the transactions to end"
        )
    with _connected(arguments) as cluster:
        found = cluster.named(ids) if ids else cluster.under(prefix)
        done = bool(found) and not arguments.dry_run and (arguments.yes or _agreed(verb, found))
        for transaction in found if done else ():
            getattr(cluster, verb)(transaction)
        _show(found, arguments, {"commit": "committed", "abort": "aborted"}[verb] if done else "left open")
    return 0 if done or arguments.dry_run or not found else 1


@contextlib.contextmanager
def _connected(arguments: argparse.Namespace) -> Iterator[Any]:
    from tidegate import registry
    from tidegate.clock import SYSTEM_CLOCK

    transactions = registry.load("tidegate.connectors", "kafka.transactions")
    with contextlib.closing(
        transactions(arguments.brokers, _properties(arguments.properties), SYSTEM_CLOCK)
    ) as cluster:
        yield cluster


def _properties(path: str | None) -> dict[str, str]:
    """Settings come by a file, as some are secrets and command lines are seen by everybody."""
    if path is None:
        return {}
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise ConfigError(f"properties file {path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            key, equals, value = line.partition("=")
            if not equals:
                raise ConfigError(f"line {number} of {path} has no '='; expected key=value")
            found[key.strip()] = value.strip()
    return found


def _agreed(verb: str, found: Sequence[_Transaction]) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError(
            f"tidegate kafka txn {verb} needs a confirmation; got no terminal; add --yes, or --dry-run to see what it would do"
        )
    names = ", ".join(each.transactional_id for each in found)
    return input(f"{verb} {names}? [y/N] ").strip().lower() in ("y", "yes")


def _show(found: Sequence[_Transaction], arguments: argparse.Namespace, outcome: str = "open") -> None:
    from tidegate.clock import SYSTEM_CLOCK
    from tidegate.runtime.cli.tables import Table, Text, show_json, show_table

    now_ms = SYSTEM_CLOCK.now_ms()
    columns = ("transaction", "producer", "epoch", "open_s", "timeout_s", "prepared", "partitions", "outcome")
    rows = [
        (
            each.transactional_id,
            each.producer_id,
            each.epoch,
            max(0, now_ms - each.since_ms) // 1_000,
            each.timeout_ms // 1_000,
            each.prepared,
            " ".join(each.partitions),
            outcome,
        )
        for each in found
    ]
    if arguments.json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows], sys.stdout)
    elif not rows:
        print("no open transactions")
    else:
        shown = [tuple(Text(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]
        show_table(Table(columns, shown), sys.stdout)
