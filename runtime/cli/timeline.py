"""Implementation of `tidegate state`: reads a timeline and prints rows. Each function returns the exit code."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tidegate.backends.timeline import key_of, keys_of, spelled, sub_of, value_of
from tidegate.elements import RecordOrigin
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.checkpoint.timeline import (
    Difference,
    Moment,
    Position,
    Selection,
    Timeline,
    export_parquet,
    pipelines,
)
from tidegate.runtime.checkpoint.verify import Problem, verify
from tidegate.runtime.cli.records import Records, records_of
from tidegate.runtime.cli.storages import chosen_storage
from tidegate.runtime.cli.tables import Table, Text, json_line, show_json, show_table
from tidegate.runtime.operators.window.windows import TimeWindowSerializer

__all__ = ["COMMANDS"]

_WINDOW_BYTES: Final = 16
_CHANGED: Final = ("namespace", "at", "before", "after", "made by", "record")
_OPTIONAL: Final = frozenset({"namespace", "at", "made by", "record"})
"""Columns that are shown only if some row has a value in them."""


def _list(arguments: argparse.Namespace) -> int:
    storage = chosen_storage(arguments)
    chosen = [arguments.pipeline] if arguments.pipeline else sorted(pipelines(storage))
    found: list[tuple[str, str, str, Moment]] = []
    for name in chosen:
        with Timeline(storage, name) as timeline:
            record = timeline.record
            found += [(name, record.status, record.lineage, moment) for moment in timeline.moments()]
    if arguments.json:
        show_json([_moment_json(*each) for each in found], sys.stdout)
        return 0
    columns = ("pipeline", "status", "lineage", "checkpoint", "time", "size", "added", "state", "operators")
    show_table(Table(columns, [_moment_row(*each) for each in found]), sys.stdout)
    return 0


def _show(arguments: argparse.Namespace) -> int:
    where = _where(arguments)
    with _timeline(arguments) as timeline:
        found = list(timeline.held(arguments.at, where))
        if not found:
            _miss(timeline, arguments.at, arguments, where)
    rows = [_place(each) | {"value": _side(each, each.change.after)} for each in found]
    _show_rows(rows, ("operator", "state", "namespace", "at", "value"), arguments.json)
    return 0 if found else 1


def _diff(arguments: argparse.Namespace) -> int:
    before, after, where = arguments.before, arguments.after, _where(arguments)
    with _timeline(arguments) as timeline:
        read = [_position(each) for each in timeline.positions(before, after)]
        found = list(timeline.differences(before, after, where))
        records = records_of(arguments.program, timeline.manifest(before), found)
    rows = [_place(each) | _sides(each, records) for each in found]
    if arguments.json:
        show_json({"read": read, "changes": rows}, sys.stdout)
        return 0
    _show_rows(read, ("source", "split", "from", "to"), as_json=False)
    print()
    _show_rows(rows, ("operator", "key", "state", *_CHANGED), as_json=False)
    return 0


def _history(arguments: argparse.Namespace) -> int:
    where = _where(arguments)
    with _timeline(arguments) as timeline:
        told = list(timeline.history(where))
        if not told:
            _miss(timeline, None, arguments, where)
        records = records_of(arguments.program, _before(timeline, told), [each for _, each in told])
    rows = [
        {"checkpoint": moment.checkpoint, "time": Text(_time(moment))} | _place(each) | _sides(each, records)
        for moment, each in told
    ]
    _show_rows(rows, ("checkpoint", "time", "operator", "state", *_CHANGED), arguments.json)
    return 0 if rows else 1


def _miss(timeline: Timeline, at: int | None, arguments: argparse.Namespace, where: Selection) -> None:
    timeline.expect_key(at, where)
    print(f"key {arguments.key} has no state", file=sys.stderr)


def _before(timeline: Timeline, told: Sequence[tuple[Moment, Difference]]) -> Manifest | None:
    """The checkpoint before the first one whose changes have causes."""
    caused = [moment.checkpoint for moment, each in told if each.cause is not None]
    older = [each.checkpoint for each in timeline.record.retained if caused and each.checkpoint < caused[0]]
    return timeline.manifest(older[-1]) if older else None


def _export(arguments: argparse.Namespace) -> int:
    directory, number = arguments.directory, arguments.at
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty; give a directory that does not exist yet")
    with _timeline(arguments) as timeline:
        if arguments.format == "jsonl":
            where = Selection(operator=arguments.operator)
            files = [_write_lines(timeline.held(number, where), directory / "state.jsonl")]
        else:
            files = export_parquet(timeline, number, directory, arguments.operator, backend=arguments.backend)
    if arguments.json:
        show_json([str(file) for file in files], sys.stdout)
    else:
        print(f"{len(files)} files below {directory}")
    return 0


def _write_lines(found: Iterable[Difference], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for each in found:
            file.write(json_line(_place(each) | {"value": _side(each, each.change.after)}))
    return path


def _verify(arguments: argparse.Namespace) -> int:
    with _timeline(arguments) as timeline:
        retained = [each.checkpoint for each in timeline.record.retained]
        chosen = [arguments.at] if arguments.at is not None else retained
        problems = {number: list(verify(timeline, number, deep=arguments.deep)) for number in chosen}
        operators = {number: _readable(timeline, number, found) for number, found in problems.items()}
    found = [each for several in problems.values() for each in several]
    if arguments.json:
        sound = [number for number in chosen if not problems[number]]
        rows = [
            {
                "checkpoint": each.checkpoint,
                "operator": each.operator,
                "file": each.file,
                "problem": each.what,
            }
            for each in found
        ]
        show_json({"sound": sound, "problems": rows}, sys.stdout)
        return 1 if found else 0
    for number in chosen:
        print(f"checkpoint {number} is {'damaged' if problems[number] else 'undamaged'}{operators[number]}")
        for each in problems[number]:
            print(f"  {each.operator or 'metadata'}: {each.what}")
    return 1 if found else 0


def _readable(timeline: Timeline, number: int, found: list[Problem]) -> str:
    """What can still be read of a damaged checkpoint."""
    if not found:
        return ""
    if any(each.operator is None for each in found):
        return "; none of it can be read"
    damaged = {each.operator for each in found}
    whole = [each.uid for each in timeline.manifest(number).operators if each.uid not in damaged]
    return f"; still readable: {', '.join(whole) or 'nothing'}"


@contextlib.contextmanager
def _timeline(arguments: argparse.Namespace) -> Iterator[Timeline]:
    with Timeline(chosen_storage(arguments), arguments.pipeline) as timeline:
        yield timeline


def _where(arguments: argparse.Namespace) -> Selection:
    if arguments.key is None:
        return Selection(operator=arguments.operator, state=arguments.state)
    key = spelled(arguments.key)
    try:
        keys_of(key)
    except RecordError as error:
        raise ConfigError(f"{arguments.key} cannot be a key: {error}") from error
    return Selection(key, arguments.operator, arguments.state)


def _show_rows(rows: list[dict[str, Any]], columns: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        show_json(rows, sys.stdout)
        return
    filled = [name for name in columns if name not in _OPTIONAL or any(row[name] is not None for row in rows)]
    show_table(Table(tuple(filled), [tuple(row[name] for name in filled) for row in rows]), sys.stdout)


def _place(found: Difference) -> dict[str, Any]:
    change = found.change
    timer = change.state.kind == "timers"
    return {
        "operator": Text(found.operator),
        "key": key_of(change.key),
        "state": Text(f"{change.state.name} timer" if timer else change.state.name),
        "namespace": _namespace(change.namespace),
        "at": sub_of(change.state, change.sub),
    }


def _namespace(data: bytes) -> Text | None:
    """A time window as text; other windows have the name that their assigner gave them."""
    if not data:
        return None
    if len(data) == _WINDOW_BYTES:
        window = TimeWindowSerializer.decode(data)
        if window.start < window.end:
            return Text(f"[{window.start}, {window.end})")
    return Text(data.hex())


def _sides(found: Difference, records: Records) -> dict[str, Any]:
    cause = found.cause
    return {
        "before": _side(found, found.change.before),
        "after": _side(found, found.change.after),
        "made by": None if cause is None else msgspec.structs.asdict(cause),
        "record": records.get(cause) if isinstance(cause, RecordOrigin) else None,
    }


def _side(found: Difference, data: bytes | None) -> Any:
    if data is None:
        return None
    return Text("set") if found.change.state.kind == "timers" else value_of(found.change.state, data)


def _position(read: Position) -> dict[str, Any]:
    return {"source": Text(read.source), "split": Text(read.split), "from": read.before, "to": read.after}


def _moment_row(pipeline: str, status: str, lineage: str, moment: Moment) -> tuple[Any, ...]:
    if moment.damage is not None:
        return (
            Text(pipeline),
            Text(status),
            Text(lineage),
            moment.checkpoint,
            None,
            None,
            None,
            Text("damaged"),
            None,
        )
    settled = Text("settled" if moment.settled else "decided")
    return (
        *map(Text, (pipeline, status, lineage)),
        moment.checkpoint,
        *map(Text, (_time(moment), f"{moment.size:,}", f"{moment.added:,}")),
        settled,
        Text(", ".join(moment.operators)),
    )


def _moment_json(pipeline: str, status: str, lineage: str, moment: Moment) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "status": status,
        "lineage": lineage,
        "branch": moment.branch,
        "checkpoint": moment.checkpoint,
        "time": _time(moment),
        "size": moment.size,
        "added": moment.added,
        "settled": moment.settled,
        "damage": moment.damage,
        "operators": list(moment.operators),
    }


def _time(moment: Moment) -> str:
    return datetime.fromtimestamp(moment.created_ms / 1000, UTC).isoformat(" ", "milliseconds")[:-6]


COMMANDS: Final = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "history": _history,
    "export": _export,
    "verify": _verify,
}
