"""Four jobs on tidegate, Bytewax and both modes of PyFlink, and as plain loops: records per CPU second.

Every system runs in a process of its own, which stays, so that the Java side is warm. What counts is the CPU time of
that process and of all below it, for a large run minus what a small one costs: start-up, planning and imports are not
in it. Numbers come from memory and results are dropped. Before anything is measured, all systems must have the same results.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from benchmarks.environments import BYTEWAX, PYFLINK, interpreter
from benchmarks.harness import Bar, Case, Report, Round, compare, main
from benchmarks.machine import tree_cpu_seconds
from benchmarks.peers.jobs import JOBS, PERIOD

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
OURS, HAND = "tidegate", "plain loop"
AT_LEAST = {"Bytewax": 2.0, "PyFlink, process mode": 5.0, "PyFlink, thread mode": 5.0}

SMALL = dict.fromkeys(JOBS, PERIOD)
LARGE = {"chain": 50 * PERIOD, "sum": 20 * PERIOD, "tumbling": 15 * PERIOD, "session": 10 * PERIOD}
SMALL_FLINK = {**SMALL, "session": PERIOD // 5}
LARGE_FLINK = {"chain": 10 * PERIOD, "sum": 6 * PERIOD, "tumbling": 4 * PERIOD, "session": 3 * PERIOD // 5}
LARGE_THREAD = {"chain": 20 * PERIOD, "sum": 8 * PERIOD, "tumbling": 6 * PERIOD, "session": 3 * PERIOD}


class System:
    """A system in its process: asked for jobs one at a time, and watched from outside.

    Args:
        name: What tables call it.
        python: Its interpreter.
        arguments: The module that serves the jobs, and what that takes.
        sizes: Records of the small and of the large run, by job.
        variables: Environment variables it needs.
    """

    def __init__(
        self,
        name: str,
        python: Path,
        arguments: list[str],
        sizes: tuple[dict[str, int], dict[str, int]] = (SMALL, LARGE),
        variables: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.small, self.large = sizes
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # PyFlink looks for `python` there
        self._process = subprocess.Popen(
            [str(python), "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, **(variables or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input ends it

    def digest(self, job: str, records: int) -> str:
        return str(self._ask("digest", job, records))

    def cost(self, job: str, records: int) -> Round:
        """What one run costs."""
        before, began = tree_cpu_seconds(self._process.pid), time.perf_counter()
        self._ask("run", job, records)
        return Round(time.perf_counter() - began, tree_cpu_seconds(self._process.pid) - before)

    def cases(self) -> list[Case]:
        return [self._case(job) for job in JOBS]

    def _case(self, job: str) -> Case:
        small, large = self.small[job], self.large[job]
        start = list[Round]()

        def run() -> Round:
            whole = self.cost(job, large)
            if not start:
                start.append(self.cost(job, small))
            return Round(whole.wall_s - start[0].wall_s, whole.cpu_s - start[0].cpu_s)

        return Case(f"{job}, {self.name}", run, {"small": small, "large": large}, large - small)

    def _ask(self, what: str, job: str, records: int) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(f"{what} {job} {records}\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"{self.name} ended with {self._process.wait()} during {what} {job} {records}")
        return json.loads(answer)


def build(rounds: int) -> Report:
    with ExitStack() as running:
        systems = [running.enter_context(system) for system in start()]
        check(systems)
        cases = [case for system in systems for case in system.cases()]
        bars = [
            Bar(f"{job}, {OURS}", f"{job}, {peer}", limit, "of its speed")
            for job in JOBS
            for peer, limit in AT_LEAST.items()
        ]
        return compare("peers", cases, bars, rounds=rounds, seconds=0, clock="cpu_s", meter=told)


def start() -> list[System]:
    here = Path(sys.executable)
    bytewax, pyflink = interpreter(BYTEWAX), interpreter(PYFLINK)
    flink = "benchmarks.peers.pyflink_streams"
    return [
        System(HAND, here, ["benchmarks.peers.hand"]),
        System(OURS, here, ["benchmarks.peers.ours"]),
        System("Bytewax", bytewax, ["benchmarks.peers.bytewax_flows"]),
        System(
            "PyFlink, process mode",
            pyflink,
            [flink, "process"],
            (SMALL_FLINK, LARGE_FLINK),
            {"_python_worker_execution_mode": "process"},
        ),
        System("PyFlink, thread mode", pyflink, [flink, "thread"], (SMALL, LARGE_THREAD)),
    ]


def check(systems: list[System]) -> None:
    """All systems have the same results."""
    for job in JOBS:
        records = min(system.small[job] for system in systems)
        found = {system.name: system.digest(job, records) for system in systems}
        if len(set(found.values())) > 1:
            raise RuntimeError(f"{job}: the systems do not do the same: {found}")


def told(run: Callable[[], object], calls: int) -> Round:
    """What a case has measured by itself."""
    found = run()
    assert isinstance(found, Round)
    return found


if __name__ == "__main__":
    main(build, ROUNDS)
