"""The compared systems do the same jobs, in processes whose whole CPU time is seen."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3]))


@pytest.fixture
def bench() -> Any:
    return importlib.import_module("benchmarks.bench_peers")


@pytest.mark.processes
def test_the_jobs_and_the_plain_loops_have_the_same_results(bench: Any) -> None:
    python = Path(sys.executable)
    with (
        bench.System(bench.HAND, python, ["benchmarks.peers.hand"]) as hand,
        bench.System(bench.OURS, python, ["benchmarks.peers.ours"]) as ours,
    ):
        bench.check([hand, ours])


@pytest.mark.processes
def test_systems_with_other_results_are_not_compared(bench: Any) -> None:
    python = Path(sys.executable)
    with bench.System(bench.HAND, python, ["benchmarks.peers.hand"]) as hand:
        other = bench.System("other", python, ["benchmarks.peers.hand"])
        with other:
            other.digest = lambda job, records: hand.digest(job, records + 1)
            with pytest.raises(RuntimeError, match=r"chain: the systems do not do the same: .*other"):
                bench.check([hand, other])


@pytest.mark.processes
def test_a_system_that_ends_is_named(bench: Any) -> None:
    with (
        bench.System("brief", Path(sys.executable), ["benchmarks.no_such_module"]) as system,
        pytest.raises(RuntimeError, match="brief ended with 1 during run sum 10"),
    ):
        system.cost("sum", 10)


@pytest.mark.processes
def test_cpu_time_of_a_process_includes_its_children_dead_and_alive() -> None:
    machine = importlib.import_module("benchmarks.machine")
    program = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {BURN!r}], check=True)\n"
        f"alive = subprocess.Popen([sys.executable, '-c', {BURN!r} + 'print(flush=True)\\ninput()'],\n"
        "                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "alive.stdout.readline()\n"
        "print('ready', flush=True)\n"
        "input()\n"
        "alive.communicate(b'\\n')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        assert parent.stdout.readline() == "ready\n"
        assert 0.55 < machine.tree_cpu_seconds(parent.pid) < 10
        assert machine.tree_cpu_seconds(os.getpid()) > machine.tree_cpu_seconds(parent.pid)
        parent.communicate("\n")
