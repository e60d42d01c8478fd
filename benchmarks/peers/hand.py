"""The jobs as plain loops: what a program costs that knows neither state, nor late records, nor failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.peers.jobs import (
    GAP_MS,
    WINDOW_MS,
    Payment,
    add,
    both,
    is_kept,
    key_of,
    payment,
    shown,
    stepped,
)
from benchmarks.peers.serve import serve

Emit = Callable[[Any], None]


def run(job: str, records: int, wanted: bool) -> list[Any] | None:
    results: list[Any] = []
    LOOPS[job](range(records), results.append if wanted else drop)
    return results if wanted else None


def drop(result: Any) -> None:
    """The sink."""


def chain(numbers: Iterable[int], emit: Emit) -> None:
    for number in numbers:
        changed = stepped(number)
        if is_kept(changed):
            for one in both(changed):
                emit(shown(one))


def running_sum(numbers: Iterable[int], emit: Emit) -> None:
    sums: dict[str, Payment] = {}
    for number in numbers:
        made = payment(number)
        key = key_of(made)
        before = sums.get(key)
        sums[key] = made if before is None else add(before, made)
        emit(sums[key])


def tumbling(numbers: Iterable[int], emit: Emit) -> None:
    """Times only grow, so a window is over when the next one begins."""
    window, sums = 0, dict[str, Payment]()
    for number in numbers:
        made = payment(number)
        if made[2] // WINDOW_MS != window:
            for result in sums.values():
                emit(result)
            window, sums = made[2] // WINDOW_MS, {}
        key = key_of(made)
        before = sums.get(key)
        sums[key] = made if before is None else add(before, made)
    for result in sums.values():
        emit(result)


def session(numbers: Iterable[int], emit: Emit) -> None:
    """A session is emitted when its key comes back after the gap, or at the end."""
    open_sessions: dict[str, Payment] = {}
    for number in numbers:
        made = payment(number)
        key = key_of(made)
        before = open_sessions.get(key)
        if before is None:
            open_sessions[key] = made
        elif made[2] - before[2] < GAP_MS:
            open_sessions[key] = add(before, made)
        else:
            emit(before)
            open_sessions[key] = made
    for result in open_sessions.values():
        emit(result)


LOOPS: dict[str, Callable[[Iterable[int], Emit], None]] = {
    "chain": chain,
    "sum": running_sum,
    "tumbling": tumbling,
    "session": session,
}

if __name__ == "__main__":
    serve(run)
