"""The jobs on Bytewax: one worker in the process that starts it, large batches, no recovery store.

Time is told per key there, and goes on with the clock on the wall while a key is silent; `WAIT` is more than a batch
takes and less than the pause between sessions, so no record is late and the results are those of the other systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators.windowing import EventClock, SessionWindower, TumblingWindower, reduce_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

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
    time_of,
)
from benchmarks.peers.serve import serve

BATCH = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WAIT = timedelta(seconds=30)


def run(job: str, records: int, wanted: bool) -> list[Any] | None:
    results: list[Any] = []
    flow = Dataflow(job)
    numbers = op.input("numbers", flow, Sequence(range(records)))
    op.output("out", STREAMS[job](numbers), Output(results.extend if wanted else drop))
    run_main(flow)
    return results if wanted else None


def drop(results: list[Any]) -> None:
    """The sink."""


class Sequence(DynamicSource[int]):  # type: ignore[misc]  # the library is not installed here
    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = numbers

    def build(self, step_id: str, worker_index: int, worker_count: int) -> SequencePartition:
        return SequencePartition(self._numbers)


class SequencePartition(StatelessSourcePartition[int]):  # type: ignore[misc]  # the library is not installed here
    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)

    def next_batch(self) -> list[int]:
        batch = list(islice(self._numbers, BATCH))
        if not batch:
            raise StopIteration
        return batch


class Output(DynamicSink[Any]):  # type: ignore[misc]  # the library is not installed here
    def __init__(self, write: Callable[[list[Any]], None]) -> None:
        self._write = write

    def build(self, step_id: str, worker_index: int, worker_count: int) -> OutputPartition:
        return OutputPartition(self._write)


class OutputPartition(StatelessSinkPartition[Any]):  # type: ignore[misc]  # the library is not installed here
    def __init__(self, write: Callable[[list[Any]], None]) -> None:
        self._write = write

    def write_batch(self, items: list[Any]) -> None:
        self._write(items)


def chain(numbers: Any) -> Any:
    changed = op.map("stepped", numbers, stepped)
    kept = op.filter("kept", changed, is_kept)
    return op.map("shown", op.flat_map("both", kept, both), shown)


def running_sum(numbers: Any) -> Any:
    return op.map("value", op.stateful_map("sum", keyed(numbers), added), value_of)


def added(before: Payment | None, made: Payment) -> tuple[Payment, Payment]:
    result = made if before is None else add(before, made)
    return result, result


def tumbling(numbers: Any) -> Any:
    length = timedelta(milliseconds=WINDOW_MS)
    return windowed(numbers, TumblingWindower(align_to=EPOCH, length=length))


def session(numbers: Any) -> Any:
    return windowed(numbers, SessionWindower(gap=timedelta(milliseconds=GAP_MS)))


def windowed(numbers: Any, windower: Any) -> Any:
    clock = EventClock(ts_getter=moment_of, wait_for_system_duration=WAIT)
    return op.map("value", reduce_window("window", keyed(numbers), clock, windower, add).down, result_of)


def keyed(numbers: Any) -> Any:
    return op.key_on("key", op.map("payment", numbers, payment), key_of)


def moment_of(made: Payment) -> datetime:
    return EPOCH + timedelta(milliseconds=time_of(made))


def value_of(pair: tuple[str, Payment]) -> Payment:
    return pair[1]


def result_of(pair: tuple[str, tuple[int, Payment]]) -> Payment:
    return pair[1][1]


STREAMS: dict[str, Callable[[Any], Any]] = {
    "chain": chain,
    "sum": running_sum,
    "tumbling": tumbling,
    "session": session,
}

if __name__ == "__main__":
    serve(run)
