"""What a checkpoint costs beside the first full one, when 1 % of the keys have changed since the one before.

The parts of a checkpoint that depend on the state are measured by themselves, on `KeyedStore` and a storage in a
directory: the pause at the barrier, the upload, and the metadata with the handle. Bytes are those that appear in the
directory. Alignment, acknowledgements and the decision cost the same for every state and are left out. Whether records
go on while a base is uploaded is measured last, as updates of the same store with and without an upload.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness import Bar, Measured, Report, Round, Verdict, main
from benchmarks.machine import CoreMeter, machine_facts
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore, ValueStateDescriptor
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

LATER = 10
BATCH = 1_000
CHANGED = 0.01
TIME_LIMIT, BYTES_LIMIT, SPEED_LIMIT = 0.05, 0.03, 0.8
SUBJECTS: tuple[tuple[Backend, int], ...] = (
    (HeapBackend(), 40_000),
    (FilesystemBackend(), 2_000_000),
    (RocksDBBackend(), 2_000_000),
)


@dataclass(frozen=True)
class Taken:
    """One checkpoint: the time from the barrier until its metadata is durable, and what appeared on the storage."""

    cost: Round
    written: int


class Subject:
    """A store full of keys, and the storage that its checkpoints go to."""

    def __init__(self, backend: Backend, keys: int, folder: Path) -> None:
        (folder / "local").mkdir()
        self._storage = folder / "storage"
        self._blobs = LocalStorage(self._storage).blobs
        files = StorageFiles(self._blobs, "run/shared")
        self._uploads = ThreadPoolExecutor(1)
        place = BackendContext(folder / "local", files, {})
        self._store = KeyedStore(backend, KeyGroupRange(0, 128), 128, (), place, uploads=self._uploads)
        self._state = self._store.value_state(ValueStateDescriptor("held", Types.STRING()))
        self._keys = keys
        self._number = 0
        self._confirmed: CheckpointId | None = None
        self._random = random.Random(7)

    def fill(self) -> None:
        self.update(range(self._keys))

    def change(self) -> None:
        self.update(sorted(self._random.sample(range(self._keys), round(self._keys * CHANGED))))

    def update(self, keys: Sequence[int]) -> None:
        for first in range(0, len(keys), BATCH):
            batch = keys[first : first + BATCH]
            self._store.prefetch(batch)
            for key in batch:
                self._store.bind(key)
                self._state.update(f"{self._number:04} of {key:012}")
            self._store.end_batch()

    def checkpoint(self) -> Taken:
        before = self._stored()
        wall, cpu = time.perf_counter(), time.process_time()
        number = CheckpointId(self._number + 1)
        handle = self._store.snapshot(number, self._confirmed).finish()
        self._blobs.put(f"run/chk-{number}/_metadata", msgspec.msgpack.encode(handle))
        cost = Round(time.perf_counter() - wall, time.process_time() - cpu)
        self._number, self._confirmed = number, number
        return Taken(cost, self._stored() - before)

    def upload(self) -> threading.Thread:
        """Write all state again in the background, as a checkpoint that may rely on nothing does."""
        self._number += 1
        pending = self._store.snapshot(CheckpointId(self._number), None)
        thread = threading.Thread(target=pending.finish)
        thread.start()
        return thread

    def updates(self, go_on: Callable[[], bool]) -> float:
        """Updates a second for as long as `go_on` says."""
        done, started = 0, time.perf_counter()
        while go_on():
            self.update(range(done % self._keys, done % self._keys + BATCH))
            done += BATCH
        return done / (time.perf_counter() - started)

    def close(self) -> None:
        self._store.close()
        self._uploads.shutdown()

    def _stored(self) -> int:
        return sum(path.stat().st_size for path in self._storage.rglob("*") if path.is_file())


def build(rounds: int) -> Report:
    meter = CoreMeter()
    cases: list[Measured] = []
    verdicts: list[Verdict] = []
    for backend, keys in SUBJECTS:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            subject = Subject(backend, keys, Path(folder))
            subject.fill()
            first = subject.checkpoint()
            later = []
            for _ in range(LATER):
                subject.change()
                later.append(subject.checkpoint())
            judged(backend.name, keys, first, later, cases, verdicts)
            if backend.name != "heap":
                verdicts.append(speed(subject, backend.name))
            subject.close()
    return Report("checkpoints", "cpu_s", machine_facts(), meter.free_cores(), cases, verdicts)


def judged(
    name: str, keys: int, first: Taken, later: list[Taken], cases: list[Measured], verdicts: list[Verdict]
) -> None:
    """Compare the median and the worst of the later checkpoints with the first."""
    full, changed = f"{name}, first", f"{name}, 1 % changed"
    arguments = {"keys": keys, "bytes": first.written, "later bytes": [taken.written for taken in later]}
    cases.append(Measured(full, arguments, 1, 1, [first.cost]))
    cases.append(Measured(changed, arguments, 1, 1, [taken.cost for taken in later]))
    for what, limit, ratios in (
        ("wall", TIME_LIMIT, [taken.cost.wall_s / first.cost.wall_s for taken in later]),
        ("cpu", TIME_LIMIT, [taken.cost.cpu_s / first.cost.cpu_s for taken in later]),
        ("bytes", BYTES_LIMIT, [taken.written / first.written for taken in later]),
    ):
        median, worst = statistics.median(ratios), max(ratios)
        bar = Bar(f"{changed}, {what}", full, limit)
        passed = median <= limit and worst <= 2 * limit
        verdicts.append(Verdict(bar, median, min(ratios), worst, passed))


def speed(subject: Subject, name: str) -> Verdict:
    """Updates while all state is uploaded, beside those just before and after."""
    ratios = []
    for _ in range(3):
        before = updates_for(subject, 2.0)
        upload = subject.upload()
        during = subject.updates(upload.is_alive)
        ratios.append(2 * during / (before + updates_for(subject, 2.0)))
    ratio = statistics.median(ratios)
    bar = Bar(f"{name}, updates during an upload", "none", SPEED_LIMIT, "of its speed")
    return Verdict(bar, ratio, min(ratios), max(ratios), ratio >= SPEED_LIMIT)


def updates_for(subject: Subject, seconds: float) -> float:
    until = time.perf_counter() + seconds
    return subject.updates(lambda: time.perf_counter() < until)


if __name__ == "__main__":
    main(build)
