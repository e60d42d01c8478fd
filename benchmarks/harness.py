"""Measures named cases side by side in one run and compares them with a baseline and with bars.

The cases take turns, so that a disturbance hits all of them; a ratio is the median of the ratios of the rounds.
Results go to `results/<name>.json` with facts about the machine, and to `results/<name>.svg`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.chart import bar_chart
from benchmarks.machine import CoreMeter, cpu_seconds, machine_facts

__all__ = ["Bar", "Case", "Report", "compare", "main", "measure"]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Case:
    """One thing to measure; `work` is how many items one call handles."""

    name: str
    run: Callable[[], object]
    arguments: dict[str, Any] = field(default_factory=dict)
    work: int = 1


@dataclass(frozen=True)
class Bar:
    """What a case must reach against a baseline: at most so many times its time or so many milliseconds more, or at
    least such a part of its speed; or by itself, with itself as baseline, so many milliseconds."""

    case: str
    baseline: str
    limit: float
    unit: Literal["times", "ms more", "of its speed", "ms"] = "times"
    clock: Literal["wall_s", "cpu_s"] | None = None
    """What it goes by where that is not what the report does."""


@dataclass
class Round:
    """One case in one round, per call."""

    wall_s: float
    cpu_s: float


@dataclass
class Measured:
    """One case over all rounds."""

    name: str
    arguments: dict[str, Any]
    work: int
    calls: int
    rounds: list[Round]

    def median(self, clock: str) -> float:
        return float(statistics.median(self.each(clock)))

    def each(self, clock: str) -> list[float]:
        """What every round took."""
        return [getattr(found, clock) for found in self.rounds]


@dataclass
class Verdict:
    """A bar with what was measured: the median of the rounds, between the lowest and the highest of them."""

    bar: Bar
    value: float
    lowest: float
    highest: float
    passed: bool


@dataclass
class Report:
    """Everything one run found out."""

    name: str
    clock: str
    machine: dict[str, str | int]
    free_cores: float
    cases: list[Measured]
    verdicts: list[Verdict]
    missing: dict[str, str] = field(default_factory=dict)
    """What could not be measured, and why."""

    @property
    def passed(self) -> bool:
        return not self.missing and all(verdict.passed for verdict in self.verdicts)

    def table(self) -> str:
        width = max(len(case.name) for case in self.cases)
        lines = [f"{self.name}: {len(self.cases[0].rounds)} rounds, {self.free_cores:.2f} cores free or ours"]
        for case in self.cases:
            wall, cpu = case.median("wall_s"), case.median("cpu_s")
            per_item = f"{wall / case.work * 1e9:12,.0f} ns/item"
            low, high = (end(case.each(self.clock)) * 1e3 for end in (min, max))
            lines.append(
                f"  {case.name:{width}}  wall {wall * 1e3:10.3f} ms  cpu {cpu * 1e3:10.3f} ms {per_item}; "
                f"{self.clock.removesuffix('_s')} {low:,.3f} to {high:,.3f} ms"
            )
        for verdict in self.verdicts:
            bar = verdict.bar
            word = "pass" if verdict.passed else "MISS"
            against = f" against {bar.baseline}" if bar.unit != "ms" else ""
            against += f" in {'CPU' if bar.clock == 'cpu_s' else 'wall'} time" if bar.clock else ""
            lines.append(
                f"  {word}: {bar.case}{against}: {verdict.value:.2f} {bar.unit} "
                f"({verdict.lowest:.2f} to {verdict.highest:.2f}), bar {bar.limit:g}"
            )
        lines += [f"  MISS: {name} is not measured: {reason}" for name, reason in self.missing.items()]
        return "\n".join(lines)

    def save(self, folder: Path = RESULTS) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        bars = [(case.name, case.median(self.clock) * 1e3) for case in self.cases]
        (folder / f"{self.name}.svg").write_text(bar_chart(self.name, bars, "ms per call"), encoding="utf-8")
        return path


def compare(
    name: str,
    cases: Sequence[Case],
    bars: Sequence[Bar] = (),
    *,
    rounds: int = 31,
    seconds: float | None = 0.01,
    clock: Literal["wall_s", "cpu_s"] = "wall_s",
    meter: Callable[[Callable[[], object], int], Round] | None = None,
) -> Report:
    """Measure the cases in turns and judge them by the bars.

    Args:
        name: of the result files.
        cases: what to measure; they take turns, every other round in the opposite order.
        bars: what must hold.
        rounds: how often each case has its turn.
        seconds: how long a turn lasts at least, by repeating quick calls; None calls once, without a trial before.
        clock: what the bars go by; `cpu_s` for work of this process alone on a machine that others use too.
        meter: what a number of calls costs each, if `measure` does not see all of it.
    """
    meter = meter or measure
    calls = {case.name: 1 for case in cases}
    if seconds is not None:
        calls = {case.name: max(1, round(seconds / max(meter(case.run, 1).wall_s, 1e-9))) for case in cases}
    measured = {
        case.name: Measured(case.name, case.arguments, case.work, calls[case.name], []) for case in cases
    }
    cores = CoreMeter()
    for number in range(rounds):
        for case in cases if number % 2 else reversed(cases):
            measured[case.name].rounds.append(meter(case.run, calls[case.name]))
    verdicts = [_judge(bar, measured, clock) for bar in bars]
    return Report(name, clock, machine_facts(), cores.free_cores(), list(measured.values()), verdicts)


def measure(run: Callable[[], object], calls: int = 1) -> Round:
    """Wall and CPU seconds per call, child processes included."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    for _ in range(calls):
        run()
    return Round((time.perf_counter() - wall) / calls, (cpu_seconds() - cpu) / calls)


def main(build: Callable[[int], Report], rounds: int = 31) -> None:
    """The command line of one benchmark: measure, print, save, and fail if a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    report = build(max(parser.parse_args().rounds, min(rounds, 5)))
    print(report.table())
    print(f"  saved to {report.save()}")
    sys.exit(0 if report.passed else 1)


def _judge(bar: Bar, measured: dict[str, Measured], clock: str) -> Verdict:
    clock = bar.clock or clock
    pairs = [
        (getattr(ours, clock), getattr(theirs, clock))
        for ours, theirs in zip(measured[bar.case].rounds, measured[bar.baseline].rounds, strict=True)
    ]
    found = [_BY_UNIT[bar.unit](ours, theirs) for ours, theirs in pairs]
    value = statistics.median(found)
    passed = value >= bar.limit if bar.unit == "of its speed" else value <= bar.limit
    return Verdict(bar, value, min(found), max(found), passed)


_BY_UNIT: dict[str, Callable[[float, float], float]] = {
    "times": lambda ours, theirs: ours / theirs,
    "ms more": lambda ours, theirs: (ours - theirs) * 1e3,
    "ms": lambda ours, _: ours * 1e3,
    "of its speed": lambda ours, theirs: theirs / ours,
}
