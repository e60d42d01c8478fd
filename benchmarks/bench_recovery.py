"""From `kill -9` of a process to the first record after it, and what a checkpoint of 200 subtasks costs its coordinator.

The job has hardly any state, so nothing is restored, and no pause before a restart, which is a setting. Detection ends
when the job is told to be restarting. `a part` is a job of two pipelines in processes of their own, of which one fails.
The coordinator is driven without subtasks: a trigger, 200 acknowledgements, metadata, decision, settlement.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, Measured, Report, Round, Verdict, main
from benchmarks.machine import CoreMeter, machine_facts
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.client import JobClient, JobStatus
from tidegate.runtime.operators.environment import OperatorReport

RATE = 1_000
DETECTED_MS, RECOVERED_MS, COORDINATED_MS = 500, 2_000, 10
SUBTASKS, CHECKPOINTS = 200, 50
PATIENCE_S = 30


@dataclass(frozen=True)
class Recovery:
    """Seconds from the kill on."""

    detected: float
    recovered: float


class Noting(MapFunction):
    """Notes the process, and when its first record came, of each attempt of a subtask."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.begun = False

    def map(self, value: int) -> int:
        if not self.begun:
            self.begun = True
            with Path(f"{self.file}-{self.index}").open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {time.monotonic()}\n")
        return value


def build(rounds: int) -> Report:
    meter = CoreMeter()
    whole = [recovery(pipelines=1) for _ in range(rounds)]
    part = [recovery(pipelines=2) for _ in range(rounds)]
    cases = {
        "noticed": [found.detected for found in whole],
        "the job is back": [found.recovered for found in whole],
        "a part is back": [found.recovered for found in part],
    }
    limits = {"noticed": DETECTED_MS, "the job is back": RECOVERED_MS, "a part is back": RECOVERED_MS}
    measured = [
        Measured(name, {"records per second": RATE}, 1, 1, [Round(second, 0.0) for second in seconds])
        for name, seconds in cases.items()
    ]
    verdicts = [verdict(name, limits[name], seconds) for name, seconds in cases.items()]
    costs = [coordinated() for _ in range(rounds)]
    name = "a checkpoint's coordination"
    measured.append(
        Measured(name, {"subtasks": SUBTASKS}, 1, CHECKPOINTS, [Round(cost, cost) for cost in costs])
    )
    verdicts.append(verdict(name, COORDINATED_MS, costs))
    return Report("recovery", "wall_s", machine_facts(), meter.free_cores(), measured, verdicts)


def verdict(name: str, limit_ms: float, seconds: Sequence[float]) -> Verdict:
    median_ms = statistics.median(seconds) * 1_000
    bar = Bar(name, name, limit_ms, "ms")
    return Verdict(bar, median_ms, min(seconds) * 1_000, max(seconds) * 1_000, median_ms <= limit_ms)


def recovery(pipelines: int) -> Recovery:
    """Kill a process of a running job, wait for its successor's first record."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        place = Path(folder)
        client = started(place, pipelines)
        note = place / "notes-0-1"
        wait_for(lambda: note.exists() and list((place / "state").glob("*/chk-*/_settled")))
        killed_at = time.monotonic()
        os.kill(int(note.read_text().split()[0]), signal.SIGKILL)
        wait_for(lambda: status(client) is not JobStatus.RUNNING)
        detected_at = time.monotonic()
        wait_for(lambda: len(note.read_text().splitlines()) > 1)
        client.cancel().result(PATIENCE_S)
        return Recovery(detected_at - killed_at, float(note.read_text().split()[3]) - killed_at)


def started(place: Path, pipelines: int) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "state.checkpoints.dir": str(place / "state"),
            "execution.checkpointing.interval": "200 ms",
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    for number in range(pipelines):
        numbers = env.from_source(GeneratorSource(int, None, rate_per_second=RATE)).slot_sharing_group(
            f"group-{number}"
        )
        numbers.rebalance().map(Noting(place / f"notes-{number}")).sink_to(FileSink(place / f"out-{number}"))
    return env.execute_async("recovery")


def status(client: JobClient) -> JobStatus:
    return client.get_job_status().result()


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"the job did not get on within {PATIENCE_S} s")
        time.sleep(0.001)


def coordinated() -> float:
    """CPU seconds of a coordinator for each of many checkpoints."""
    subtasks = tuple(Subtask(f"vertex-{index // 20}", index % 20) for index in range(SUBTASKS))
    made = CheckpointCoordinator(cp.Plan(subtasks, subtasks[:20], interval_ms=1), CheckpointId(1))
    made.on(cp.Tick(0))
    reports = [(OperatorReport(OperatorUid(each.vertex), each.index),) for each in subtasks]
    begun = time.process_time()
    for number in range(1, CHECKPOINTS + 1):
        checkpoint = CheckpointId(number)
        if made.on(cp.Tick(number)) == []:
            raise RuntimeError(f"checkpoint {number} was not triggered")
        for subtask, mine in zip(subtasks, reports, strict=True):
            made.on(cp.Ack(subtask, checkpoint, mine))
        made.on(cp.MetadataDurable(checkpoint, frozenset()))
        made.on(cp.Swapped(checkpoint))
        made.on(cp.SettledDurable(checkpoint))
    return (time.process_time() - begun) / CHECKPOINTS


if __name__ == "__main__":
    main(build, rounds=7)
