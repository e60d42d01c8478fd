"""The running totals of `bench_kafka` as a user writes them first, beside the loop by hand: every option at its default.

All fields are decoded, records carry Kafka's timestamps, functions are lambdas, the sink writes transactions under a
prefix of its own. `BENCH_RECORDS` is how much is read, five million by default.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.environments import HAND, interpreter
from benchmarks.harness import Bar, Report, compare, main
from benchmarks.kafka_runs import Arena, Command, told
from tidegate.testing.services import KafkaService

LOOP = Path(__file__).resolve().parent / "baselines" / "hand_loop.py"
RECORDS = int(os.environ.get("BENCH_RECORDS", "5_000_000"))
FEW = 1_000
USERS = 10_000
ROUNDS = 10
BACKENDS = ("heap", "filesystem", "rocksdb")
HAND_LOOP, ONE, TWO = "by hand", "filesystem", "two processes"


def build(rounds: int) -> Report:
    with KafkaService() as kafka:
        arena = Arena(kafka)
        few, payments = arena.fill(FEW, FEW), arena.fill(RECORDS, USERS)
        commands = [
            Command(HAND_LOOP, [str(interpreter(HAND)), str(LOOP)]),
            *(ours(backend, {"state.backend.type": backend}) for backend in BACKENDS),
            ours(TWO, {"state.backend.type": ONE, "parallelism.default": 2}),
        ]
        cases = [arena.case(command, payments, few) for command in commands]
        return compare("payments", cases, bars(), rounds=rounds, seconds=None, clock="cpu_s", meter=told)


def bars() -> list[Bar]:
    beside_the_loop = [
        bar
        for backend in BACKENDS
        for bar in (
            Bar(backend, HAND_LOOP, 1.4, "times", "cpu_s"),
            Bar(backend, HAND_LOOP, 0.7, "of its speed", "wall_s"),
        )
    ]
    return [*beside_the_loop, Bar(TWO, ONE, 1.2, "times", "cpu_s")]


def ours(name: str, settings: dict[str, object]) -> Command:
    """The program with settings."""
    module = "benchmarks.peers.kafka_payments"
    return Command(name, [sys.executable, "-P", "-m", module, json.dumps(settings)])


if __name__ == "__main__":
    main(build, ROUNDS)
