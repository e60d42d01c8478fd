"""What the driver of a job on Spark does in an epoch, by the number of partitions, with everything real but Spark itself.

See `wide.py`. The bar is that thousands of partitions cost the driver no more for each than tens do, twice at most: nothing
in it may grow faster than the program is wide. Times are of this process alone.
"""

from __future__ import annotations

import statistics
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.bench_peers import told
from benchmarks.harness import Bar, Case, Report, Round, compare, main
from benchmarks.machine import cpu_seconds
from benchmarks.wide import Wide

ROUNDS = 3
EPOCHS = 3
WIDTHS = (50, 500, 5_000)
AT_MOST = 2.0


def build(rounds: int) -> Report:
    cases = [
        Case(f"{width:,} partitions, for each", partial(epoch, width), {"partitions": width})
        for width in WIDTHS
    ]
    bars = [Bar(cases[-1].name, cases[1].name, AT_MOST, "times", "cpu_s")]
    return compare("spark_wide", cases, bars, rounds=rounds, seconds=0, clock="wall_s", meter=told)


def epoch(partitions: int) -> Round:
    """What a partition costs the driver in the median epoch; its CPU time is the mean, what is made up included."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        wide = Wide(Path(root), partitions, EPOCHS)
        before = cpu_seconds()
        epochs = wide.run()
        spent = cpu_seconds() - before
    typical = epochs[-1]
    print(
        f"  {partitions:,} partitions: driver {statistics.median(each.driver_s for each in epochs):.3f} s an epoch; "
        f"{typical.closure_bytes:,} bytes to each task, {typical.data_bytes:,} to all sources, "
        f"{typical.answer_bytes:,} back"
    )
    driver_s = statistics.median(each.driver_s for each in epochs)
    return Round(driver_s / partitions, spent / (EPOCHS + 2) / partitions)


if __name__ == "__main__":
    main(build, ROUNDS)
