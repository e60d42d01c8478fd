"""What an epoch on Spark takes by partitions, records and changed keys: measured on 1 to 8 partitions, then a model of it.

The program is that of `bench_spark.py`. The model is printed with what it says of 50, 500 and 5,000 partitions; what the
driver adds there is measured by `bench_spark_wide.py`. Its CPU time has a model too, which says more where a machine is busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

from benchmarks.bench_peers import told
from benchmarks.bench_spark import KEYS, epochs, load
from benchmarks.cost_model import Model, Point, fit
from benchmarks.harness import Case, Measured, Report, Round, compare, main
from benchmarks.served import Served

ROUNDS = 2
PARTITIONS = (1, 2, 4, 8)
SIZES = ((800, 800), (20_000, 20_000), (100_000, 20_000))
"""Records of an epoch, and how many keys they are of."""
COUNT = 12
PREDICTED = (50, 500, 5_000)
EACH = 10_000
"""Records for each partition in what is predicted."""


def build(rounds: int) -> Report:
    with Served("benchmarks.peers.spark_epochs", "ours") as system:
        for partitions in PARTITIONS:
            load(system, partitions, KEYS)
        cases = [
            Case(
                f"{partitions} partitions, {records:,} records of {dirty:,} keys",
                partial(epochs, system, partitions, KEYS, records, COUNT),
                {"partitions": partitions, "records": records, "dirty": dirty},
            )
            for partitions in PARTITIONS
            for records, dirty in SIZES
        ]
        report = compare("spark_model", cases, rounds=rounds, seconds=0, meter=told)
    for clock, name in (("wall_s", "wall time"), ("cpu_s", "CPU time")):
        points = list(points_of(report.cases[: len(cases)], clock))
        model = fit(points)
        say(name, model, points)
        report.cases.append(Measured(f"model of {name}", asdict(model), 1, 1, [Round(model.fixed_s, 0.0)]))
    return report


def points_of(cases: list[Measured], clock: str) -> Iterator[Point]:
    for case in cases:
        size = case.arguments
        yield Point(size["partitions"], size["records"], size["dirty"], case.median(clock))


def say(name: str, model: Model, points: list[Point]) -> None:
    print(
        f"  {name} of an epoch: {model.fixed_s * 1e3:.0f} ms, {model.partition_s * 1e3:.1f} ms for each partition, "
        f"{model.record_s * 1e6:.2f} us for each record, {model.dirty_s * 1e6:.2f} us for each changed key"
    )
    errors = [
        model.seconds(point.partitions, point.records, point.dirty) / point.seconds - 1 for point in points
    ]
    print(f"  off by {min(errors):+.0%} to {max(errors):+.0%} of what was measured")
    for partitions in PREDICTED:
        records = partitions * EACH
        two, all_at_once = (model.seconds(partitions, records, records, slots) for slots in (2, partitions))
        print(
            f"  {partitions:,} partitions, {records:,} records and keys: {two:,.1f} s on two slots, "
            f"{all_at_once:,.2f} s with a slot each"
        )


if __name__ == "__main__":
    main(build, ROUNDS)
