"""A window operator by itself: records, watermarks and a clock go in, results and their times come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.address import EVENT_TIMERS, PROCESSING_TIMERS, ROWS, split
from tidegate.backends.keyed.restore import restore
from tidegate.backends.spi import BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import ManualClock
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.keys import KeyGroupRange
from tidegate.runtime.operators.codegen import Stage, compile_stages
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.operator import Emitted, Piece
from tidegate.runtime.operators.window.operator import WindowOperator
from tidegate.runtime.operators.window.windowing import Windowing
from tidegate.runtime.stream.tags import OutputTag

LATE = OutputTag("late")
Results = list[tuple[Any, int]]
Open = Callable[..., "Bench"]


class Bench:
    """One operator; `crash` goes back to what the newest `save` holds."""

    def __init__(self, windowing: Windowing, root: Path, now_ms: int = 0, cache_entries: int = 2) -> None:
        self.clock = ManualClock(now_ms)
        self._windowing = windowing
        self._root = root
        self._cache_entries = cache_entries
        self._storage = MemoryStorage()
        self._files = StorageFiles(self._storage.blobs, "bench", inline_threshold=0)
        self._numbers = 0
        self._handles: tuple[KeyedHandle, ...] = ()
        self._open()

    def put(self, value: Any, at: int | None = None, key: Any = "k") -> Results:
        """What the operator emits for a record."""
        return self.put_all([(value, at, key)])

    def put_all(self, records: list[tuple[Any, int | None, Any]]) -> Results:
        """What the generated loop makes of a batch of values, times and keys; what is late comes last, with its tag."""
        values, times, keys = (list(column) for column in zip(*records, strict=True))
        rows = self.store.prefetch(keys)
        run = self._timed.run if times[0] is not None else self._untimed.run
        (emitted, at), (late, late_at) = run(values, times, rows)
        self.store.end_batch()
        results = [*zip(emitted, at or (), strict=True)]
        return results + [((LATE, value), time) for value, time in zip(late, late_at or (), strict=True)]

    def watermark(self, time: int) -> Results:
        """What event time makes it emit."""
        return self._fired(self.operator.event_time, time)

    def advance(self, now_ms: int) -> Results:
        """What the clock makes it emit."""
        self.clock.advance(now_ms - self.clock.now_ms())
        return self._fired(self.operator.processing_time, now_ms)

    def save(self) -> None:
        """Take a checkpoint that is decided at once."""
        self._numbers += 1
        self._handles = (self.store.snapshot(CheckpointId(self._numbers), None).finish(),)

    def crash(self) -> None:
        """Lose what happened since the last checkpoint and start again from it."""
        self.close()
        self._open()

    def stored(self) -> tuple[int, int]:
        """How many keys and windows have any state, and how many timers wait; takes a checkpoint to find out."""
        states = [split(at).state for at in self.entries()]
        rows = sum(state == ROWS for state in states)
        return rows, sum(state in (EVENT_TIMERS, PROCESSING_TIMERS) for state in states)

    def entries(self) -> dict[bytes, bytes]:
        """What a checkpoint holds at this moment, byte for byte."""
        self.save()
        opened = restore(HeapBackend(), KeyGroupRange(0, 4), self._handles, self._place())
        entries = dict(opened.materialisation.scan(b"\0", b"\xff"))
        opened.materialisation.close()
        return entries

    def close(self) -> None:
        self.operator.close()

    def _fired(self, fire: Callable[[int, Piece], Emitted | None], time: int) -> Results:
        results: Results = []
        while (emitted := fire(time, Piece(2))) is not None:
            values, times = emitted
            results += zip(values, times or [], strict=True)
        return results

    def _open(self) -> None:
        self.store = self._store()
        context = OperatorContext(
            OperatorUid("window"), "window", self._environment(), lambda: self.store, RestoredOperator()
        )
        self._windowing.open(context)
        self.operator = WindowOperator(self._windowing, context)
        sides = ((LATE, Stage(OperatorUid("late"), 1, None, outputs=(1,))),)
        stage = Stage(OperatorUid("window"), 0, self.operator.calls[0], outputs=(0,), sides=sides)
        self._timed, self._untimed = (compile_stages("bench", stage, timed=timed) for timed in (True, False))

    def _store(self) -> KeyedStore:
        return KeyedStore(
            HeapBackend(),
            KeyGroupRange(0, 4),
            4,
            self._handles,
            self._place(),
            cache_entries=self._cache_entries,
        )

    def _place(self) -> BackendContext:
        self._numbers += 1
        directory = self._root / str(self._numbers)
        directory.mkdir()
        return BackendContext(directory, self._files, {})

    def _environment(self) -> ChainEnvironment:
        return ChainEnvironment(
            subtask=Subtask("window", 0),
            parallelism=1,
            max_parallelism=4,
            key_groups=KeyGroupRange(0, 4),
            pipeline=PipelineId("bench"),
            lineage=LineageId("bench"),
            branch=Branch(0),
            attempt="1",
            clock=self.clock,
            backend=HeapBackend(),
            state=BackendContext(self._root, self._files, {}),
            cache_entries=2,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Open]:
    """Opens operators and closes them at the end."""
    opened: list[Bench] = []

    def open_one(windowing: Windowing, now_ms: int = 0) -> Bench:
        directory = tmp_path / f"bench-{len(opened)}"
        directory.mkdir()
        opened.append(Bench(windowing, directory, now_ms))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def bench_at() -> Callable[..., Bench]:
    """Opens operators in a given directory; the caller closes them."""
    return Bench
