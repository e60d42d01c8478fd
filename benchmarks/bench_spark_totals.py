"""Keyed running totals on Spark beside PySpark's transformWithState, with rows and with pandas: seconds of a warm batch.

The same function is called per row, batches are of one size, and state is in RocksDB with its log and checkpoints; both
run on `local[2]` with two partitions. The input is computed and the output dropped, so there is nothing else in it.
"""

from __future__ import annotations

import os
import statistics

from benchmarks.bench_peers import told
from benchmarks.harness import Bar, Case, Report, Round, compare, main
from benchmarks.served import Served

ROUNDS = 3
ROWS = int(os.environ.get("BENCH_ROWS", "20_000"))
WARM, COUNT = 4, 8
OURS, ROW, PANDAS = "tidegate", "transformWithState, rows", "transformWithState, pandas"
AT_LEAST = 4.0


def build(rounds: int) -> Report:
    with (
        Served("benchmarks.peers.spark_totals", "ours") as ours,
        Served("benchmarks.peers.spark_totals", "peer") as peer,
    ):
        cases = [
            Case(OURS, lambda: batches(ours, "ours"), {"rows": ROWS}, ROWS),
            Case(ROW, lambda: batches(peer, "row"), {"rows": ROWS}, ROWS),
            Case(PANDAS, lambda: batches(peer, "pandas"), {"rows": ROWS}, ROWS),
        ]
        bars = [Bar(OURS, other, AT_LEAST, "of its speed", "wall_s") for other in (ROW, PANDAS)]
        return compare("spark_totals", cases, bars, rounds=rounds, seconds=0, clock="wall_s", meter=told)


def batches(system: Served, how: str) -> Round:
    """The median batch; its CPU time is the mean, warm ones and the beginning included."""
    before = system.cpu_s()
    found = system.ask(how=how, rows=ROWS, warm=WARM, count=COUNT)
    return Round(statistics.median(found), (system.cpu_s() - before) / (WARM + COUNT))


if __name__ == "__main__":
    main(build, ROUNDS)
