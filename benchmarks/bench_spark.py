"""What an epoch on Spark costs besides its records: beside Spark's own settings, by partition, and by the size of state.

An epoch is source -> key_by -> value state -> blackhole on `local[2]`, RocksDB, checkpoints in a local directory, fsynced. It
lasts from its trigger to the next one, so everything is in it. Both sessions stay, and take turns. A round is the median
of 30 epochs behind warm ones, 15 where each touches 20,000 keys.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks.bench_peers import told
from benchmarks.harness import Bar, Case, Report, Round, compare, main
from benchmarks.served import Served

ROUNDS = 3
RECORDS, KEYS, MANY_KEYS = 800, 20_000, 2_000_000
FEWEST, MOST = 2, 8
OURS, STOCK = "epoch of 800 records", "the same, stock settings"
PARTITION = "each further partition, 2 to 8"
FEW, MANY = "20,000 of 20,000 keys", "20,000 of 2,000,000 keys"
WARM = 8


def build(rounds: int) -> Report:
    with (
        Served("benchmarks.peers.spark_epochs", "ours") as ours,
        Served("benchmarks.peers.spark_epochs", "stock") as stock,
    ):
        for system in (ours, stock):
            load(system, FEWEST, KEYS)
        load(ours, MOST, KEYS)
        load(ours, FEWEST, MANY_KEYS)
        cases = [
            case(OURS, lambda: epochs(ours, FEWEST, KEYS, RECORDS, 30), records=RECORDS, partitions=FEWEST),
            case(STOCK, lambda: epochs(stock, FEWEST, KEYS, RECORDS, 30), records=RECORDS, partitions=FEWEST),
            case(PARTITION, lambda: per_partition(ours), records=RECORDS),
            case(FEW, lambda: epochs(ours, FEWEST, KEYS, KEYS, 15), records=KEYS, partitions=FEWEST),
            case(MANY, lambda: epochs(ours, FEWEST, MANY_KEYS, KEYS, 15), records=KEYS, partitions=FEWEST),
        ]
        bars = [
            Bar(OURS, STOCK, 0.6),
            Bar(PARTITION, PARTITION, 40, "ms"),
            Bar(MANY, FEW, 1.5),
        ]
        return compare("spark", cases, bars, rounds=rounds, seconds=0, clock="wall_s", meter=told)


def load(system: Served, partitions: int, keys: int) -> None:
    """Put all keys into state, at most a million in an epoch."""
    for _ in range(max(1, keys // 1_000_000)):
        system.ask(pipeline=[partitions, keys, KEYS], load=min(keys, 1_000_000))


def epochs(system: Served, partitions: int, keys: int, records: int, count: int) -> Round:
    """The median epoch; its CPU time is the mean, warm ones and the end of the run included."""
    before = system.cpu_s()
    found = system.ask(pipeline=[partitions, keys, KEYS], records=records, warm=WARM, count=count)
    return Round(statistics.median(found), (system.cpu_s() - before) / (count + WARM))


def per_partition(system: Served) -> Round:
    few, most = (epochs(system, partitions, KEYS, RECORDS, 30) for partitions in (FEWEST, MOST))
    further = MOST - FEWEST
    return Round((most.wall_s - few.wall_s) / further, (most.cpu_s - few.cpu_s) / further)


def case(name: str, run: Callable[[], Round], **arguments: int) -> Case:
    return Case(name, run, dict(arguments))


if __name__ == "__main__":
    main(build, ROUNDS)
