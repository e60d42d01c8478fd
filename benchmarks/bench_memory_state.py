"""What keyed state takes of memory: held by the filesystem backend beside a dictionary, and on RocksDB beside its budget.

Each is a process of its own, which says by how much its resident memory has grown since its first record. State is that
of a job of the DataStream API with checkpoints on; RocksDB holds ten times as much as its process may take.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench_memory import Rss, resident_mb
from benchmarks.bench_peers import told
from benchmarks.harness import Bar, Case, Report, Round, compare, main
from benchmarks.jobs import run_inline
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.types import Types

KEYS = 1_000_000
BUDGET_MB = 64
ENTRY_BYTES = 140
"""An address, a value of 100 bytes, and what RocksDB keeps of both."""
MANY_KEYS = 10 * BUDGET_MB * 1_000_000 // ENTRY_BYTES
CACHED = 2_000


def value_of(number: int) -> str:
    return f"{number:0100d}"


class Hold(KeyedProcessFunction):
    """Keeps a value for each key, and samples memory from the first record on."""

    rss: Rss

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> None:
        if not value:
            self.before = resident_mb("self")
            self.rss = Rss().__enter__()
        self.held.update(value_of(value))
        if value == self.keys - 1:
            self.grown = resident_mb("self") - self.before

    def close(self) -> None:
        self.rss.__exit__()
        print(self.grown, max(self.rss.samples, default=0.0) - self.before)


def program(keys: int) -> Callable[[StreamExecutionEnvironment], DataStream]:
    return lambda env: env.from_source(GeneratorSource(int, keys)).key_by(int).process(Hold(keys))


def filesystem() -> None:
    run_inline(program(KEYS), "filesystem", {"execution.checkpointing.interval": "10 s"})


def rocksdb() -> None:
    settings = {
        "execution.checkpointing.interval": "10 s",
        "state.cache.entries": CACHED,
        "taskmanager.memory.managed.size": f"{BUDGET_MB * 1_000_000}",
    }
    run_inline(program(MANY_KEYS), "rocksdb", settings)


def dictionary() -> None:
    before, held = resident_mb("self"), dict[int, str]()
    for number in range(KEYS):
        held[number] = value_of(number)
    grown = resident_mb("self") - before
    print(grown, grown)


MODULE = "benchmarks.bench_memory_state"


def build(rounds: int) -> Report:
    plain = Case("dictionary, MB", grown_and_peak(dictionary)[0], {"keys": KEYS})
    held, peak = grown_and_peak(filesystem)
    _, bounded = grown_and_peak(rocksdb)
    cases = [
        plain,
        Case("filesystem, MB", held, {"keys": KEYS}),
        Case("filesystem, most during a checkpoint, MB", peak, {"keys": KEYS}),
        Case("rocksdb, most, MB", bounded, {"keys": MANY_KEYS, "budget_mb": BUDGET_MB, "cached": CACHED}),
    ]
    bars = [
        Bar("filesystem, MB", plain.name, 1.6),
        Bar("filesystem, most during a checkpoint, MB", plain.name, 1.6),
        Bar("rocksdb, most, MB", "rocksdb, most, MB", 1.1 * BUDGET_MB, "ms"),
    ]
    return compare("memory_state", cases, bars, rounds=1, seconds=0, meter=told)


def grown_and_peak(part: Callable[[], None]) -> list[Callable[[], Round]]:
    """By how much a process in which a part runs has grown by its last record, and by how much at most."""
    command = [sys.executable, "-c", f"from {MODULE} import {part.__name__} as part; part()"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-2:]
    # The harness knows milliseconds: a megabyte is one.
    return [partial(Round, float(mb) / 1_000, 0.0) for mb in said]


if __name__ == "__main__":
    main(build, 1)
