"""The running totals of `bench_kafka` beside Quix Streams, Bytewax, PyFlink in both modes and Flink SQL, on one broker.

Their programs are those in `baselines` as they are, each in the way it was fastest there: two processes of Quix Streams and of
Bytewax, Flink with two of everything, PyFlink with large bundles and caches. Ours has one process. All read from the same
broker on the same machine and write as safely as they can, which is at least once for Bytewax and exactly once for the others.

What counts is what a million records cost, in CPU time without the start, and in time from the first record to the last one
written; the first is that which the program sees where it can tell, else that which it writes. `BENCH_RECORDS` is how many we and Flink SQL read, two million by default; slower ones read a part of that. Who cannot be
installed or started is not measured, which fails the benchmark.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import BYTEWAX_KAFKA, PYFLINK, QUIX, interpreter
from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.kafka_runs import Arena, Command, Payments, ours, told
from tidegate.errors import TidegateError
from tidegate.testing.services import KafkaService
from tidegate.testing.services.jars import fetch_jars
from tidegate.testing.services.repository import Coordinate

PROGRAMS = Path(__file__).resolve().parent / "baselines"
RECORDS = int(os.environ.get("BENCH_RECORDS", "2_000_000"))
FEW = 1_000
USERS = 10_000
ROUNDS = 3
OURS = "tidegate"
CONNECTOR = Coordinate("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")


@dataclass(frozen=True)
class Rival:
    """A system, how many times its speed ours is to have, and which part of the records it reads."""

    name: str
    at_least: float
    part: int
    command: Callable[[str], Command]


def build(rounds: int) -> Report:
    with KafkaService() as kafka:
        arena = Arena(kafka)
        few = arena.fill(FEW, FEW)
        inputs = {part: arena.fill(RECORDS // part, USERS) for part in {1, *(each.part for each in RIVALS)}}
        cases = [arena.case(ours("totals", OURS, {}), inputs[1], few)]
        missing: dict[str, str] = {}
        for rival in RIVALS:
            found = started(rival, arena, inputs[rival.part], few)
            if isinstance(found, str):
                missing[rival.name] = found
            else:
                cases.append(found)
        report = compare(
            "kafka_peers", cases, bars(missing), rounds=rounds, seconds=None, clock="wall_s", meter=told
        )
        report.missing = missing
        return report


def started(rival: Rival, arena: Arena, payments: Payments, few: Payments) -> Case | str:
    """The case of a rival that works, or why it does not."""
    try:
        command = rival.command(rival.name)
        return arena.case(command, payments, few)
    except (TidegateError, RuntimeError, OSError) as error:
        return str(error)


def bars(missing: dict[str, str]) -> list[Bar]:
    return [
        Bar(OURS, rival.name, rival.at_least, "of its speed", clock)
        for rival in RIVALS
        if rival.name not in missing
        for clock in ("wall_s", "cpu_s")
    ]


def quix(name: str) -> Command:
    # In a group of two; each has a number, and with it a place for its state.
    both = 'PROC=0 "$0" quix_job.py & PROC=1 "$0" quix_job.py & wait'
    return Command(name, ["sh", "-c", both, str(interpreter(QUIX))], ALONE, folder=PROGRAMS, marks=True)


def bytewax(name: str) -> Command:
    variables = {**ALONE, "BW": str(interpreter(BYTEWAX_KAFKA))}
    return Command(name, ["sh", "bytewax_2proc.sh"], variables, folder=PROGRAMS, marks=True)


def flink(program: str, **variables: str) -> Callable[[str], Command]:
    def command(name: str) -> Command:
        python = interpreter(PYFLINK)
        more = {
            **ALONE,
            **variables,
            "JARS": str(fetch_jars([CONNECTOR]) / CONNECTOR.jar),
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",  # its workers are the `python` found there
        }
        return Command(name, [str(python), program], more, folder=PROGRAMS, marks=program == "flink_ds.py")

    return command


ALONE = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
"""Nothing of ours is in their way, and nothing of theirs is left in the checkout."""

RIVALS = (
    Rival("Flink SQL", 1.5, 1, flink("flink_sql.py")),
    Rival("Bytewax, at least once", 1.5, 2, bytewax),
    Rival("Quix Streams", 4.0, 4, quix),
    Rival(
        "PyFlink, process mode",
        10.0,
        10,
        flink("flink_ds.py", _python_worker_execution_mode="process", BUNDLE="100000", CACHE="20000"),
    ),
    Rival("PyFlink, thread mode", 10.0, 10, flink("flink_ds.py", MODE="thread")),
)


if __name__ == "__main__":
    main(build, ROUNDS)
