"""`tidegate demo`: a pipeline is killed three times by `kill -9`; then its output is compared with its input."""

from __future__ import annotations

import argparse
import io
import json
import os
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
from tidegate.runtime.cli.demo.scenario import Plan, Scenario
from tidegate.runtime.cli.demo.screen import open_screen
from tidegate.runtime.cli.demo.workspace import Workspace, claim

__all__ = ["register", "run"]

_RECORDS, _FEWEST = 500_000, 1_000
_SPARKLINE: Final = 72


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `demo` to the commands."""
    parser = subparsers.add_parser(
        "demo", help="kill a pipeline three times and prove that nothing is lost or there twice"
    )
    parser.add_argument(
        "--sabotage", action="store_true", help="damage the output on purpose; the proof must fail"
    )
    parser.add_argument(
        "--records", type=int, default=_RECORDS, help="payments to process; default: %(default)s"
    )
    parser.add_argument("--directory", type=Path, default=Path("demo-output"), help="default: %(default)s")
    parser.add_argument(
        "--seed", type=int, help="decides the moments of the kills; default: another one each time"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; 0 if input and output agree, 1 if they do not.

    Raises:
        TidegateError: it cannot be played; the message says why and what to do.
    """
    if arguments.records < _FEWEST:
        raise ConfigError(
            f"--records is {arguments.records}; expected at least {_FEWEST}, or the demo is over too soon"
        )
    seed = int(new_id(4), 16) if arguments.seed is None else arguments.seed
    plan = Plan(arguments.records, seed, arguments.sabotage)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without blocks and crosses shows question marks
    with claim(arguments.directory) as workspace, _ended_by_sigterm():
        return _demo(plan, workspace)


def _demo(plan: Plan, workspace: Workspace) -> int:
    print(
        f"{plan.records:,} payments -> running totals per account in RocksDB -> files, exactly once; "
        f"checkpoint every {plan.interval_ms / 1_000:g} s\nthree kills at random moments (seed {plan.seed}); about {plan.seconds + 10:.0f} s"
    )
    with open_screen(sys.stdout) as screen:
        scenario = Scenario(plan, workspace, screen, SYSTEM_CLOCK)
        scenario.play()
    print("         the audit makes the input again and compares it with the files", flush=True)
    found = audit(Payments(plan.records), workspace.output)
    verdict = _verdict(found, scenario)
    workspace.picture.write_text(picture(scenario.timeline, verdict, passed=found.passed), encoding="utf-8")
    workspace.report.write_text(json.dumps(_report(plan, scenario, found), indent=2) + "\n", encoding="utf-8")
    _tell(scenario, found, verdict)
    _show_the_way(workspace, plan)
    return 0 if found.passed else 1


def _verdict(found: Audit, scenario: Scenario) -> str:
    done = f"{len(scenario.timeline.kills)} kills, {len(scenario.timeline.checkpoints)} checkpoints"
    done += ", sabotage on purpose" if scenario.sabotage is not None else ""
    if found.passed:
        records = (
            f"{found.records_in:,} records in, {found.records_out:,} out and {found.declined:,} filtered"
        )
        return f"nothing lost, nothing twice: {records}, {done}"
    damage = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.counts.items()))
    return f"NOT exactly once: {damage}; {found.records_in:,} records in, {found.records_out:,} out, {done}"


def _tell(scenario: Scenario, found: Audit, verdict: str) -> None:
    timeline = scenario.timeline
    print(
        f"\nrecords/s  {sparkline(timeline, _SPARKLINE)}  ✗ kill -9\n           0 s{timeline.ended_s:{_SPARKLINE - 5}.0f} s"
    )
    print(f"\n{_colored(verdict, found.passed)}")
    if scenario.sabotage is not None:
        print("this was sabotage on purpose; nobody told the audit which records:")
    for finding in sorted(found.findings, key=lambda each: each.id)[:NAMED]:
        print(f"  {finding.text}")


def _show_the_way(workspace: Workspace, plan: Plan) -> None:
    job = Path(__file__).with_name("job.py")
    print(
        f"\nlook at  {workspace.picture}  what happened, as a picture\n"
        f"         {workspace.output}/  the files; {workspace.log}: what the job said\n"
        f"         {job}  the pipeline"
    )
    program = "tidegate" if shutil.which("tidegate") else sys.argv[0]
    print(f"try      {program} demo{'' if plan.sabotaged else ' --sabotage'}")
    print(f"         {program} demo --seed {plan.seed}  for the same plan of kills")


def _report(plan: Plan, scenario: Scenario, found: Audit) -> dict[str, object]:
    timeline = scenario.timeline
    return {
        "passed": found.passed,
        "seed": plan.seed,
        "records_in": found.records_in,
        "declined": found.declined,
        "records_out": found.records_out,
        "kills": [{**asdict(kill), "recovery_s": timeline.recovery_s(kill)} for kill in timeline.kills],
        "checkpoints": len(timeline.checkpoints),
        "seconds": timeline.ended_s,
        "damage": dict(found.counts),
        "findings": [asdict(finding) for finding in found.findings],
        "sabotage": asdict(scenario.sabotage) if scenario.sabotage is not None else None,
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
