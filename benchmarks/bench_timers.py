"""A million event-time timers that one watermark makes due: when the first result is there, how long a barrier takes in
the middle of it, and how much memory it takes above the state.

One subtask, driven step by step as a worker does, with a checkpoint after the timers are registered and another one
each second while they fire.

Example:
    python -m benchmarks.bench_timers --count 100000 --backend heap
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.common import Types
from tidegate.datastream import DataStream, KeyedProcessFunction, RuntimeContext, ValueStateDescriptor
from tidegate.elements import Barrier, Batch, Watermark
from tidegate.ids import CheckpointId
from tidegate.runtime.options import JobOptions
from tidegate.testing.harness import Harness

DUE, PIECE = 1_000, 1_000
FIRST_MS, BARRIER_MS, ABOVE_MB = 100, 200, 64
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "heap": {"state.backend.heap.max-state": 2**31},
    # With its default memory, half a gigabyte, a database grows into that while timers fire.
    "rocksdb": {"state.backend.rocksdb.memory.fixed-per-slot": 64 * 2**20},
    "rocksdb with default memory": {},
}


class Counts(KeyedProcessFunction):
    """Counts the records of a key, and says at a moment how many there were."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(DUE + value % 1_000)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value()


def counted(stream: DataStream) -> DataStream:
    return stream.key_by(lambda value: value).process(Counts()).uid("counts")


class MachineClock(ManualClock):
    """The clock of the machine where a harness has one that a test moves."""

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def now_ms(self) -> int:
        return SYSTEM_CLOCK.now_ms()


class Background(ThreadPoolExecutor):
    """Where checkpoints are written."""

    _last: Future[Any] | None = None

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._last = super().submit(fn, *args, **kwargs)
        return self._last

    def wait(self) -> None:
        """Until the last one is written; raises what went wrong."""
        if self._last is not None:
            self._last.result()


class Subtask(Harness):
    """A harness by the machine's clock, one step at a time."""

    clock_type = MachineClock
    cache_entries = JobOptions().cache_entries

    def __init__(self, backend: str) -> None:
        self.backend_options = OPTIONS[backend]
        super().__init__(counted, backend=backend.partition(" ")[0])

    def background(self, executor: Background) -> None:
        self._executor = executor
        for runner in self._runners.values():
            runner._background = executor

    def load(self, first: int, count: int) -> None:
        for gate in self._sources[0].values():
            gate.emit(Batch(list(range(first, first + count))))
        self._run()

    def send(self, element: Watermark | Barrier) -> None:
        for gate in self._sources[0].values():
            gate.broadcast(element)

    def step(self) -> None:
        for runner in self._runners.values():
            runner.step()

    def barrier(self) -> Took:
        """Until a barrier has passed the subtask; what its part of the checkpoint is written by is another thread."""
        (runner,) = self._runners.values()
        self._executor.wait()
        self._number = CheckpointId(self._number + 1)
        with Took() as took:
            self.send(Barrier(self._number, CheckpointId(self._number - 1)))
            while any(isinstance(each, Barrier) for queue in runner._queues.values() for each in queue):
                runner.step()
        return took


class Took:
    """Wall and CPU milliseconds of a block."""

    def __enter__(self) -> Took:
        self._wall, self._cpu = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall_ms = (time.perf_counter() - self._wall) * 1_000
        self.cpu_ms = (time.thread_time() - self._cpu) * 1_000


@dataclass(frozen=True)
class Figures:
    """What was measured of one backend."""

    backend: str
    count: int
    first_ms: float
    """From the watermark to the first result."""
    first_cpu_ms: float
    barrier_ms: float
    """The longest of the barriers."""
    barrier_cpu_ms: float
    barriers: int
    piece_ms: float
    """The longest step between two looks at barriers and receivers."""
    piece_cpu_ms: float
    above_mb: float
    """Memory at its highest above what it was before the watermark."""
    per_cpu_second: float

    @property
    def missed(self) -> list[str]:
        """The bars that it does not reach."""
        bars = {"first_ms": FIRST_MS, "barrier_ms": BARRIER_MS, "above_mb": ABOVE_MB}
        return [name for name, most in bars.items() if getattr(self, name) > most]


def measure(backend: str, count: int) -> Figures:
    """Fire `count` timers that are due at once."""
    with Subtask(backend) as subtask, Background(1) as background:
        subtask.background(background)
        for start in range(0, count, PIECE):
            subtask.load(start, min(PIECE, count - start))
        subtask.barrier()
        barriers, pieces = list[Took](), list[Took]()
        background.submit(gc.collect).result()
        before, taken = _memory_mb(), 0
        highest, checkpointed = before, time.perf_counter()
        with Took() as whole:
            with Took() as first:
                subtask.send(Watermark(2 * DUE))
                while not taken:
                    subtask.step()
                    taken += len(subtask.take())
            while taken < count:
                with Took() as piece:
                    subtask.step()
                pieces.append(piece)
                taken += len(subtask.take())
                highest = max(highest, _memory_mb())
                if not barriers or time.perf_counter() - checkpointed > 1:
                    barriers.append(subtask.barrier())
                    checkpointed = time.perf_counter()
    return Figures(
        backend,
        count,
        first.wall_ms,
        first.cpu_ms,
        max(each.wall_ms for each in barriers),
        max(each.cpu_ms for each in barriers),
        len(barriers),
        max(each.wall_ms for each in pieces),
        max(each.cpu_ms for each in pieces),
        highest - before,
        count / whole.cpu_ms * 1_000,
    )


def _memory_mb() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    # As worker processes have it.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--backend", choices=list(OPTIONS), action="append")
    given = parser.parse_args()
    measured = [measure(name, given.count) for name in given.backend or list(OPTIONS)[:2]]
    for figures in measured:
        print(json.dumps(asdict(figures)), "missed:", ", ".join(figures.missed) or "nothing")
    sys.exit(any(figures.missed for figures in measured))
