"""What checkpoints cost a running job, and how long they take behind a slow step.

A sum of four million records by 100,000 keys with a checkpoint every second beside one with the last checkpoint only. And
a job with a slow sink on one of two branches, whose checkpoints wait for the records in front of it or overtake them:
from the trigger to the decision, as the job reports it.
"""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import tempfile
import threading
from functools import partial
from typing import Any

from benchmarks.harness import Bar, Case, Measured, Report, Round, Verdict, compare, main
from benchmarks.jobs import DiscardingSink, run_inline
from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Types
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment

RECORDS, KEYS = 4_000_000, 100_000
SPEED_LIMIT, TIME_LIMIT = 0.9, 0.1
PAUSE_S = 0.001
"""For a record in the slow sink: fifty times what the rest of the job needs for one."""
TAKEN, AT_MOST_S = 4, 120.0
"""Checkpoints of each kind that are looked at."""


def sums(env: StreamExecutionEnvironment) -> DataStream:
    pairs = env.from_source(GeneratorSource(lambda n: (n * 7919 % KEYS, n), RECORDS))
    typed = pairs.map(lambda pair: pair, Types.TUPLE([Types.LONG(), Types.LONG()]))
    return typed.key_by(lambda pair: pair[0], Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1]))


def throughput(rounds: int) -> Report:
    often, never = (
        {"execution.checkpointing.interval": 1_000},
        {"execution.checkpointing.interval": 3_600_000},
    )
    cases = [
        Case(f"{backend}, {name}", partial(run_inline, sums, backend, settings), {"keys": KEYS}, RECORDS)
        for backend in ("filesystem", "rocksdb")
        for name, settings in (("every second", often), ("at the end", never))
    ]
    bars = [
        Bar(f"{backend}, every second", f"{backend}, at the end", SPEED_LIMIT, "of its speed")
        for backend in ("filesystem", "rocksdb")
    ]
    return compare("barriers", cases, bars, rounds=rounds, seconds=0.0, clock="cpu_s")


class Told(io.StringIO):
    """Standard error of a job that reports itself as JSON; collects how long each decided checkpoint took."""

    def __init__(self) -> None:
        super().__init__()
        self.took: dict[int, float] = {}
        self.enough = threading.Event()

    def write(self, text: str) -> int:
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                said = json.loads(line)
                if said.get("decided"):
                    self.took.setdefault(said["decided"], said["checkpoint_ms"] / 1_000)
        if len(self.took) > TAKEN:
            self.enough.set()
        return len(text)


def durations(settings: dict[str, Any]) -> list[float]:
    """Seconds that the checkpoints after the first took, with a slow branch beside a quick one."""

    def slow(value: int) -> int:
        SYSTEM_CLOCK.sleep(PAUSE_S)
        return value

    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        common = {
            "execution.target": "embedded",
            "parallelism.default": 2,
            "pipeline.progress": "json",
            "pipeline.id": "benchmark",
            "execution.checkpointing.interval": 500,
            "state.checkpoints.dir": root,
        }
        env = StreamExecutionEnvironment.get_execution_environment({**common, **settings})
        numbers = env.from_source(GeneratorSource(lambda n: n, None, splits=2)).map(lambda n: n, Types.LONG())
        sums = numbers.key_by(lambda n: n % 1_000, Types.LONG()).reduce(lambda a, b: a + b)
        sums.sink_to(DiscardingSink())
        sums.rebalance().map(slow, Types.LONG()).sink_to(DiscardingSink())
        told = Told()
        with contextlib.redirect_stderr(told):
            client = env.execute_async("benchmark")
            told.enough.wait(AT_MOST_S)
            client.cancel().result()
    return [took for number, took in sorted(told.took.items())][1:]


def behind_a_slow_sink() -> tuple[list[Measured], Verdict]:
    aligned = durations({})
    overtaking = durations({"execution.checkpointing.unaligned.enabled": True})
    measured = [
        Measured(name, {"pause": PAUSE_S}, 1, len(took), [Round(each, 0.0) for each in took])
        for name, took in (("aligned", aligned), ("overtaking", overtaking))
    ]
    middle = statistics.median(aligned)
    ratio = statistics.median(overtaking) / middle
    bar = Bar("overtaking", "aligned", TIME_LIMIT)
    return measured, Verdict(
        bar, ratio, min(overtaking) / middle, max(overtaking) / middle, ratio <= TIME_LIMIT
    )


def build(rounds: int) -> Report:
    measured, verdict = behind_a_slow_sink()
    report = throughput(rounds)
    report.cases += measured
    report.verdicts.append(verdict)
    return report


if __name__ == "__main__":
    main(build, 7)
