"""Output of `tidegate list`, `info` and `checkpoints`. Each function returns the exit code."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import UnavailableError
from tidegate.runtime.cli.tables import Table, Text, shortened, show_json, show_table
from tidegate.runtime.control.control_client import ControlClient
from tidegate.runtime.control.jobs import Job, find_job, known_jobs
from tidegate.runtime.durations import readable_age
from tidegate.runtime.observe.operators import condition
from tidegate.runtime.observe.run_snapshot import CheckpointStats, RunSnapshot
from tidegate.runtime.report import readable

__all__ = ["COMMANDS"]

_EVERY_S: Final = 1.0
_CLEAR: Final = "\x1b[H\x1b[J"


def _list(arguments: argparse.Namespace) -> int:
    seen = [(job, run) for job in known_jobs() if (run := _seen(job)) is not None]
    if arguments.json:
        show_json([_json(job, run) for job, run in seen], sys.stdout)
        return 0
    columns = ("job", "pipeline", "state", "on", "for", "records", "settled", "restarts")
    rows = [
        (
            *map(Text, (job.run, shortened(job.pipeline, 20), run.state, shortened(job.target, 9))),
            Text(readable_age(round(run.elapsed_s * 1000))),
            Text(f"{run.records:,}"),
            None if run.settled_age_s is None else Text(readable_age(round(run.settled_age_s * 1000))),
            run.restarts,
        )
        for job, run in seen
    ]
    show_table(Table(columns, rows), sys.stdout)
    return 0


def _info(arguments: argparse.Namespace) -> int:
    job = find_job(arguments.job)
    with ControlClient(job) as caller:
        run = caller.look()
        _show_info(job, run, arguments)
        while arguments.watch:
            SYSTEM_CLOCK.sleep(_EVERY_S)
            try:
                run = caller.look()
            except UnavailableError:
                break
            if sys.stdout.isatty() and not arguments.json:
                sys.stdout.write(_CLEAR)
            _show_info(job, run, arguments)
    return 0


def _show_info(job: Job, run: RunSnapshot, arguments: argparse.Namespace) -> None:
    if arguments.json:
        show_json(_json(job, run), sys.stdout)
        return
    for name, value in _words(job, run).items():
        if value is not None:
            print(f"{name:22}{value}")
    print()
    _show_operators(run, sys.stdout)
    sys.stdout.flush()


def _words(job: Job, run: RunSnapshot) -> Mapping[str, str | None]:
    """The lines of `tidegate info`."""
    newest = run.checkpoints[-1] if run.checkpoints else None
    return {
        "job": f"{job.run} {job.name!r}, {run.state} for {run.elapsed_s:,.0f} s on {job.target}",
        "pipeline": f"{job.pipeline}, checkpoints in {job.root}",
        "process": f"{job.process.pid} on {job.process.host}",
        "metrics": f"{job.http}/metrics" if job.http else None,
        "records": f"{run.records:,} read, {run.per_second:,.0f} a second",
        "behind": None if run.behind_ms is None else f"{run.behind_ms / 1000:,.1f} s of event time",
        "busy": None if run.slowest is None else f"{run.slowest} is the bottleneck",
        "newest checkpoint": None if newest is None else f"{newest.checkpoint}, {newest.state}",
        "last settled": None
        if run.settled_age_s is None
        else f"{run.newest_settled}, {run.settled_age_s:.1f} s ago",
        "checkpoint size": None if run.checkpoint_bytes is None else readable(run.checkpoint_bytes),
        "open transactions": f"{run.open_transactions}",
        "not visible": None
        if run.unsettled_reason is None
        else f"for {run.unsettled_age_s or 0:,.0f} s: {run.unsettled_reason}",
        "restarts": f"{run.restarts}" + (f", last for: {run.failure}" if run.failure else ""),
        "warnings": "; ".join(run.warnings) or None,
        "new splits": "; ".join(f"{uid}: {each.reason}" for uid, each in run.discovery.items() if each.reason)
        or None,
    }


def _show_operators(run: RunSnapshot, out: TextIO) -> None:
    columns = ("operator", "subtasks", "records", "per second", "behind", "state")
    rows = [
        (
            Text(uid),
            each.subtasks,
            Text(f"{each.records:,}"),
            Text(f"{each.per_second:,.0f}"),
            None if each.behind_ms is None else Text(f"{each.behind_ms / 1000:,.1f} s"),
            Text(condition(each)),
        )
        for uid, each in run.operators.items()
    ]
    show_table(Table(columns, rows), out)


def _checkpoints(arguments: argparse.Namespace) -> int:
    with ControlClient(find_job(arguments.job)) as caller:
        run = caller.look()
    if arguments.json:
        show_json([dataclasses.asdict(each) for each in run.checkpoints], sys.stdout)
        return 0
    columns = ("checkpoint", "state", "triggered", "decided", "settled", "size", "open", "why")
    show_table(Table(columns, [_row(each) for each in run.checkpoints]), sys.stdout)
    return 0


def _row(each: CheckpointStats) -> tuple[Any, ...]:
    return (
        each.checkpoint,
        Text(each.state),
        Text(_time(each.triggered_ms)),
        _after(each.decided_after_ms),
        _after(each.settled_after_ms),
        None if each.size is None else Text(readable(each.size)),
        each.transactions,
        None if each.reason is None else Text(each.reason),
    )


def _after(milliseconds: int | None) -> Text | None:
    return None if milliseconds is None else Text(f"after {milliseconds:,} ms")


def _seen(job: Job) -> RunSnapshot | None:
    """The state of a job; None if it has just ended."""
    try:
        with ControlClient(job) as caller:
            return caller.look()
    except UnavailableError:
        return None


def _json(job: Job, run: RunSnapshot) -> dict[str, Any]:
    """All fields except the token of the control socket."""
    told: dict[str, Any] = {**msgspec.to_builtins(job), **msgspec.to_builtins(run)}
    del told["token"]
    return told


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "seconds")[:-6]


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "list": _list,
    "info": _info,
    "checkpoints": _checkpoints,
}
