"""`tidegate demo`: a pipeline is killed three times by `kill -9`; then its output is compared with its input."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.errors import ConfigError
from tidegate.runtime.cli.demo.audit import NAMED, Audit, audit
from tidegate.runtime.cli.demo.chart import picture, sparkline
from tidegate.runtime.cli.demo.payments import Payments
from tidegate.runtime.cli.demo.sabotage import Sabotage, sabotage
from tidegate.runtime.cli.demo.scenario import Plan, Scenario
from tidegate.runtime.cli.demo.screen import open_screen
from tidegate.runtime.cli.demo.timeline import Timeline
from tidegate.runtime.cli.demo.workspace import Workspace, claim

__all__ = ["course", "register", "run", "tell"]

_RECORDS, _FEWEST = 500_000, 1_000
_SPARKLINE: Final = 72
_KAFKA_MODULE: Final = "tidegate.testing.kafka_demo"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `demo` to the commands."""
    parser = subparsers.add_parser(
        "demo", help="kill a pipeline three times and prove that no record is lost or duplicated"
    )
    parser.add_argument(
        "--sabotage", action="store_true", help="damage the output on purpose; the audit must find it"
    )
    parser.add_argument(
        "--records", type=int, default=_RECORDS, help="payments to process; default: %(default)s"
    )
    parser.add_argument("--directory", type=Path, default=Path("demo-output"), help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="seed of the moments of the kills; default: random")
    parser.add_argument(
        "--kafka", action="store_true", help="from topic to topic of a new broker, which needs Java 17"
    )
    parser.add_argument(
        "--brokers", metavar="HOST:PORT", help="from topic to topic of your cluster, in new topics"
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="from the embedded executor to Spark, which needs Java 17 and is killed once",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; 0 if input and output agree, 1 if they do not.

    Raises:
        TidegateError: it cannot be played; the message says why and what to do.
    """
    if arguments.records < _FEWEST:
        raise ConfigError(
            f"--records is {arguments.records}; expected at least {_FEWEST}, because the demo would end too soon"
        )
    seed = int(new_id(4), 16) if arguments.seed is None else arguments.seed
    plan = Plan(arguments.records, seed)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without blocks and crosses shows question marks
    with claim(arguments.directory) as workspace, _ended_by_sigterm():
        if arguments.kafka or arguments.brokers is not None:
            # What needs services lies above the runtime and is looked up by name.
            play = importlib.import_module(_KAFKA_MODULE).play
            return int(play(plan, workspace, brokers=arguments.brokers, sabotaged=arguments.sabotage))
        if arguments.spark:
            # Who does not ask for Spark does not load what speaks to jobs.
            from tidegate.runtime.cli.demo import on_spark

            command = _job_command(plan, workspace)
            return on_spark.play(plan, workspace, command, sabotaged=arguments.sabotage)
        return _demo(plan, workspace, sabotaged=arguments.sabotage)


def _demo(plan: Plan, workspace: Workspace, *, sabotaged: bool) -> int:
    print(
        f"{plan.records:,} payments -> running totals per account in RocksDB -> files, exactly once; "
        f"checkpoint every {plan.interval_ms / 1_000:g} s\nthree kills at random moments (seed {plan.seed}); about {plan.seconds + 10:.0f} s"
    )
    done: list[Sabotage] = []

    def damage(chance: random.Random) -> str:
        done.append(sabotage(workspace.output, chance))
        return f"record {done[0].dropped:,} is dropped from the output and record {done[0].doubled:,} doubled"

    with open_screen(sys.stdout) as screen:
        command = _job_command(plan, workspace)
        scenario = Scenario(
            plan, workspace, screen, SYSTEM_CLOCK, command, damage=damage if sabotaged else None
        )
        scenario.play()
    timeline = scenario.timeline
    print("         the audit generates the input again and compares it with the files", flush=True)
    found = audit(Payments(plan.records), workspace.output)
    verdict = _verdict(found, timeline, sabotaged=bool(done))
    workspace.picture.write_text(picture(timeline, verdict, passed=found.passed), encoding="utf-8")
    report = _report(plan, timeline, found, done)
    workspace.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    tell(timeline, verdict, passed=found.passed)
    if done:
        print("this was sabotage on purpose; the audit was not told which records:")
    for finding in sorted(found.findings, key=lambda each: each.id)[:NAMED]:
        print(f"  {finding.text}")
    _show_the_way(workspace, plan, sabotaged=sabotaged)
    return 0 if found.passed else 1


def tell(timeline: Timeline, verdict: str, *, passed: bool) -> None:
    """Print what happened in one line of blocks, and what came of it."""
    print(
        f"\nrecords/s  {sparkline(timeline, _SPARKLINE)}  ✗ kill -9\n           0 s{timeline.ended_s:{_SPARKLINE - 5}.0f} s"
    )
    print(f"\n{_colored(verdict, passed)}")


def course(plan: Plan, timeline: Timeline) -> dict[str, object]:
    """What happened, for programs."""
    return {
        "seed": plan.seed,
        "kills": [{**asdict(kill), "recovery_s": timeline.recovery_s(kill)} for kill in timeline.kills],
        "checkpoints": len(timeline.checkpoints),
        "seconds": timeline.ended_s,
    }


def _job_command(plan: Plan, workspace: Workspace) -> list[str]:
    options = {"--records": plan.records, "--rate": plan.rate, "--interval-ms": plan.interval_ms}
    said = [word for name, value in options.items() for word in (name, str(value))]
    directory = str(workspace.root.resolve())
    return [sys.executable, "-P", "-m", "tidegate.runtime.cli.demo.job", *said, "--directory", directory]


def _verdict(found: Audit, timeline: Timeline, *, sabotaged: bool) -> str:
    done = f"{len(timeline.kills)} kills, {len(timeline.checkpoints)} checkpoints"
    done += ", sabotage on purpose" if sabotaged else ""
    if found.passed:
        records = (
            f"{found.records_in:,} records in, {found.records_out:,} out and {found.declined:,} filtered"
        )
        return f"nothing lost, nothing twice: {records}, {done}"
    damage = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.counts.items()))
    return f"NOT exactly once: {damage}; {found.records_in:,} records in, {found.records_out:,} out, {done}"


def _show_the_way(workspace: Workspace, plan: Plan, *, sabotaged: bool) -> None:
    job = Path(__file__).with_name("job.py")
    print(
        f"\nlook at  {workspace.picture}  chart of the run\n"
        f"         {workspace.output}/  the files; {workspace.log}: output of the job\n"
        f"         {job}  the pipeline"
    )
    program = "tidegate" if shutil.which("tidegate") else sys.argv[0]
    print(f"try      {program} demo{'' if sabotaged else ' --sabotage'}")
    print(f"         {program} demo --seed {plan.seed}  for the same plan of kills")


def _report(plan: Plan, timeline: Timeline, found: Audit, done: list[Sabotage]) -> dict[str, object]:
    return {
        "passed": found.passed,
        **course(plan, timeline),
        "records_in": found.records_in,
        "declined": found.declined,
        "records_out": found.records_out,
        "damage": dict(found.counts),
        "findings": [asdict(finding) for finding in found.findings],
        "sabotage": asdict(done[0]) if done else None,
    }


def _colored(text: str, passed: bool) -> str:
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\x1b[1;{32 if passed else 31}m{text}\x1b[0m"


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: the job is ended on the way out."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
