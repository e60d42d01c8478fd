"""State in RocksDB: beside the heap where all of it is cached, beside the bare library where a tenth is, and two peers.

Uniform keys, values of 100 bytes, every record reads and writes its key's. Ours are jobs of the DataStream API, run
inline with checkpoints on; what is beside them does the same to the same keys, in the same order.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, WriteOptions

from benchmarks.bench_peers import System
from benchmarks.environments import BYTEWAX, QUIX, interpreter
from benchmarks.harness import Bar, Case, Report, Round, compare, main, measure
from benchmarks.jobs import run_inline
from benchmarks.peers.serve import fingerprint
from benchmarks.peers.touches import KEYS, VALUES, drawn, touched
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.types import Types

RECORDS = 400_000
START = 1_000
"""Records of a run whose cost is taken for that of starting."""
FEW, MANY = KEYS
CACHED = KEYS[MANY] // 10
MEMORY = KEYS[MANY] * 140 // 10
"""A tenth of what the state takes on disk before it is compressed."""

ROUNDS = 3
BYTES = [value.encode() for value in VALUES]
NUMBERS = {name: drawn(name, RECORDS) for name in KEYS}


def itself(number: int) -> int:
    return number


class Touch(KeyedProcessFunction):
    """Replaces the value of a key by one that follows from it."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.update(touched(self.seen.value(), value))


def program(numbers: list[int]) -> Callable[[StreamExecutionEnvironment], DataStream]:
    return lambda env: env.from_collection(numbers).key_by(itself).process(Touch())


def job(name: str, backend: str, **settings: Any) -> Callable[[], object]:
    given = {"execution.checkpointing.interval": "10 s", **settings}
    return lambda: run_inline(program(NUMBERS[name]), backend, given)


def build(rounds: int) -> Report:
    bound = {"state.cache.entries": CACHED, "taskmanager.memory.managed.size": MEMORY}
    with ExitStack() as running:
        peers = [running.enter_context(system) for system in others()]
        for system in peers:
            check(system)
        ours = {FEW: f"{FEW}, rocksdb", MANY: f"{MANY}, rocksdb"}
        cases = [
            Case(f"{FEW}, heap", job(FEW, "heap"), {"keys": KEYS[FEW]}, RECORDS),
            Case(ours[FEW], job(FEW, "rocksdb"), {"keys": KEYS[FEW]}, RECORDS),
            Case(f"{MANY}, rocksdict", bare, {"keys": KEYS[MANY], "memory": MEMORY}, RECORDS),
            Case(ours[MANY], job(MANY, "rocksdb", **bound), {"keys": KEYS[MANY], **bound}, RECORDS),
        ]
        bars = [
            Bar(ours[FEW], f"{FEW}, heap", 0.5, "of its speed"),
            Bar(ours[MANY], f"{MANY}, rocksdict", 0.6, "of its speed"),
        ]
        for system, name in product(peers, KEYS):
            theirs = Case(f"{name}, {system.name}", Asked(system, name), {"keys": KEYS[name]}, RECORDS)
            cases.append(theirs)
            bars.append(Bar(ours[name], theirs.name, 3.0, "of its speed"))
        return compare("rocksdb", cases, bars, rounds=rounds, seconds=0, clock="cpu_s", meter=meter)


def others() -> list[System]:
    sizes = dict.fromkeys(KEYS, START), dict.fromkeys(KEYS, RECORDS)
    return [
        System("Quix Streams", interpreter(QUIX), ["benchmarks.peers.quix_state"], sizes),
        System("Bytewax", interpreter(BYTEWAX), ["benchmarks.peers.bytewax_state"], sizes),
    ]


def check(system: System) -> None:
    """It makes the same values as a dictionary does."""
    for name in KEYS:
        values: dict[int, str] = {}
        made = Counter[str]()
        for number in drawn(name, START):
            values[number] = touched(values.get(number), number)
            made[values[number]] += 1
        found = system.digest(name, START)
        if found != fingerprint(list(made.items())):
            raise RuntimeError(f"{system.name} does something else with {name}: {found}")


class Asked:
    """A run of a peer without what starting it costs."""

    def __init__(self, system: System, job: str) -> None:
        self._system = system
        self._job = job
        self._start = system.cost(job, START)

    def __call__(self) -> Round:
        whole = self._system.cost(self._job, RECORDS)
        return Round(whole.wall_s - self._start.wall_s, whole.cpu_s - self._start.cpu_s)


def meter(run: Callable[[], object], calls: int = 1) -> Round:
    return run() if isinstance(run, Asked) else measure(run, calls)


def bare() -> None:
    """A get and a put for each record, with as much memory as our database has."""
    keys = [b"%08d" % number for number in range(KEYS[MANY])]
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        database = Rdict(str(Path(folder, "db")), options=same_options())
        unlogged = WriteOptions()
        unlogged.disable_wal = True
        database.set_write_options(unlogged)
        for number in NUMBERS[MANY]:
            key = keys[number]
            found = database.get(key)
            database.put(key, BYTES[(number + len(found or b"")) & 63])
        database.close()


def same_options() -> Options:
    blocks, options = BlockBasedOptions(), Options(raw_mode=True)
    blocks.set_block_cache(Cache(MEMORY * 7 // 16))
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_bloom_filter(10, False)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(MEMORY * 7 // 32)
    options.set_max_write_buffer_number(2)
    options.set_target_file_size_base(16 * 1024 * 1024)
    options.set_compression_type(DBCompressionType.lz4())
    return options


if __name__ == "__main__":
    main(build, ROUNDS)
