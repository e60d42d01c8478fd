"""Running totals between topics of a real broker on Spark: tidegate exactly once, beside transformWithState at least once.

The peer is `baselines/spark_job.py` as it is, with rows and with pandas; its sink is Spark's own, which gives no more. All run
on `local[2]` beside the broker, with two partitions, RocksDB and 200,000 records a batch. `BENCH_RECORDS` is how much is read.
What counts is the time from the first record in the output to the last; that every record is there once is checked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

from benchmarks.harness import Bar, Report, compare, main
from benchmarks.kafka_runs import Arena, Command, ours, told
from tidegate.testing.services import KafkaService
from tidegate.testing.services.jars import fetch_jars
from tidegate.testing.services.repository import Coordinate, Repository, repository_url

FOLDER = Path(__file__).resolve().parent
RECORDS = int(os.environ.get("BENCH_RECORDS", "600_000"))
FEW, USERS = 1_000, 10_000
BATCH = 200_000
ROUNDS = 2
AT_LEAST = 5.0
OURS = "tidegate, exactly once"
CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
COMPLETE, NEWEST = "4.0.0", "4.2.0"
"""Of the newest connector the repository lacks a part, so that comes from an older one."""
NEEDED = ("kafka-clients", "commons-pool2", "spark-token-provider")


def build(rounds: int) -> Report:
    jars = connector()
    with KafkaService() as kafka:
        arena = Arena(kafka)
        few, payments = arena.fill(FEW, FEW), arena.fill(RECORDS, USERS)
        settings = {
            "execution.target": "local[2]",
            "execution.spark.epoch-records": BATCH // 2,
            "parallelism.default": 2,
            "state.backend.type": "rocksdb",
        }
        peers = {f"transformWithState, {how}": kind for how, kind in (("rows", "tws"), ("pandas", "twsp"))}
        commands = [
            ours("totals", OURS, settings),
            *(spark(name, kind, jars) for name, kind in peers.items()),
        ]
        cases = [arena.case(command, payments, few) for command in commands]
        bars = [Bar(OURS, name, AT_LEAST, "of its speed", "wall_s") for name in peers]
        return compare("spark_kafka", cases, bars, rounds=rounds, seconds=0, clock="wall_s", meter=told)


def spark(name: str, kind: str, jars: str) -> Command:
    variables = {
        "STATE": kind,
        "SPARKJARS": jars,
        "MAXOFF": str(BATCH),
        "TRIGGER": "available",
        "N_IN": str(RECORDS),
        "PYSPARK_PYTHON": sys.executable,
    }
    return Command(name, [sys.executable, "-P", str(FOLDER / "baselines" / "spark_job.py")], variables)


def connector() -> str:
    """The jars of Spark's Kafka connector, as its setting wants them."""
    complete = fetch_jars([Coordinate(*CONNECTOR, COMPLETE)])
    found = [jar for jar in sorted(complete.glob("*.jar")) if jar.name.startswith(NEEDED)]
    newest = complete.with_name(f"{CONNECTOR[1]}-{NEWEST}.jar")
    if not newest.exists():
        repository = Repository(repository_url(Path.home() / ".m2" / "settings.xml"))
        newest.write_bytes(repository.read(Coordinate(*CONNECTOR, NEWEST).path("jar")))
    print(f"pyspark {pyspark.__version__} with {newest.name} and {', '.join(jar.name for jar in found)}")
    return ",".join(map(str, (newest, *found)))


if __name__ == "__main__":
    main(build, ROUNDS)
