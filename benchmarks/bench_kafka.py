"""Running totals, and the mere passing on, between topics of a real broker, exactly once, beside loops by hand.

The loop for totals is `baselines/hand_loop.py` as it is, with orjson in an environment of its own. It makes objects of all five
fields of a message; our program declares the two that it needs, and is measured without that too. All programs read the same
input on the same machine as the broker. `BENCH_RECORDS` is how much, five million by default.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.environments import HAND, interpreter
from benchmarks.harness import Bar, Report, compare, main
from benchmarks.kafka_runs import Arena, Command, ours, told
from tidegate.testing.services import KafkaService

FOLDER = Path(__file__).resolve().parent
RECORDS = int(os.environ.get("BENCH_RECORDS", "5_000_000"))
FEW = 1_000
USERS, MANY_USERS = 10_000, 3_000_000
ROUNDS = 3
BACKENDS = ("heap", "filesystem", "rocksdb")

HAND_TOTALS, HAND_PASS, HAND_MANY = "totals, by hand", "pass, by hand", "totals of 3 M users, bare RocksDB"
PASS, TWO, MANY = "pass", "totals, two processes", "totals of 3 M users, rocksdb"
FASTEST, ALL = "totals, filesystem", "totals, filesystem, all fields"


def build(rounds: int) -> Report:
    with KafkaService() as kafka:
        arena = Arena(kafka)
        few, payments = arena.fill(FEW, FEW), arena.fill(RECORDS, USERS)
        commands = [
            Command(HAND_TOTALS, [str(interpreter(HAND)), str(FOLDER / "baselines" / "hand_loop.py")]),
            *(ours("totals", f"totals, {backend}", {"state.backend.type": backend}) for backend in BACKENDS),
            ours("totals of all fields", ALL, {}),
            ours("totals", TWO, {"parallelism.default": 2}),
            by_hand("pass", HAND_PASS),
            ours("pass", PASS, {}),
        ]
        cases = [arena.case(command, payments, few) for command in commands]
        many = arena.fill(RECORDS, MANY_USERS)
        cases += [
            arena.case(by_hand("totals", HAND_MANY), many, few),
            arena.case(ours("totals", MANY, {"state.backend.type": "rocksdb"}), many, few),
        ]
        return compare("kafka", cases, bars(), rounds=rounds, seconds=None, clock="cpu_s", meter=told)


def bars() -> list[Bar]:
    of_totals = [
        bar
        for backend in BACKENDS
        for bar in (
            Bar(f"totals, {backend}", HAND_TOTALS, 1.4, "times", "cpu_s"),
            Bar(f"totals, {backend}", HAND_TOTALS, 0.75, "of its speed", "wall_s"),
        )
    ]
    return [
        *of_totals,
        Bar(ALL, HAND_TOTALS, 1.4, "times", "cpu_s"),
        Bar(TWO, FASTEST, 1.6, "times", "cpu_s"),
        Bar(PASS, HAND_PASS, 0.85, "of its speed", "wall_s"),
        Bar(MANY, HAND_MANY, 0.6, "of its speed", "wall_s"),
    ]


def by_hand(job: str, name: str) -> Command:
    arguments = [sys.executable, "-P", "-m", "benchmarks.peers.kafka_hand", job]
    return Command(name, arguments, passes_on=job == "pass")


if __name__ == "__main__":
    main(build, ROUNDS)
