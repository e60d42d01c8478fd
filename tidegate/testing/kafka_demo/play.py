"""Runner of the Kafka demo: a broker, a payment producer, the job, three kills, the audit, a picture."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Final

from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.errors import MissingExtraError
from tidegate.runtime.audit.comparison import Comparison
from tidegate.runtime.audit.findings import Verdict
from tidegate.runtime.audit.rule import Rule
from tidegate.runtime.cli.demo.chart import picture
from tidegate.runtime.cli.demo.command import course, tell
from tidegate.runtime.cli.demo.scenario import KILLS, Plan, Scenario
from tidegate.runtime.cli.demo.screen import open_screen
from tidegate.runtime.cli.demo.timeline import Sample, Timeline
from tidegate.runtime.cli.demo.workspace import Workspace
from tidegate.testing.kafka_demo.layout import PARTITIONS, Expected
from tidegate.testing.services.kafka import KafkaService

__all__ = ["play"]

_SLACK_S: Final = 90.0
_SHARES: Final = 4


def play(plan: Plan, workspace: Workspace, *, brokers: str | None, sabotaged: bool) -> int:
    """Run it on its own broker, or on these; 0 if the audit proves exactly once, 1 if it does not.

    Raises:
        TidegateError: it cannot be played; the message says why and what to do.
    """
    how = "in plain writes, which is the SABOTAGE" if sabotaged else "exactly once"
    print(
        f"{plan.records:,} payments, {plan.rate:,.0f} a second, through Kafka -> running totals per account in RocksDB -> "
        f"Kafka, {how};\ncheckpoint every {plan.interval_ms / 1_000:g} s, three kills at random moments (seed {plan.seed}); "
        f"about {plan.seconds + 25:.0f} s",
        flush=True,
    )
    with _cluster(brokers) as address:
        topics = _topics(address)
        timeline = _played(plan, workspace, address, topics, sabotaged=sabotaged)
        print("  the audit reads both topics, as any consumer could", flush=True)
        payments, totals = (f"kafka://{address}/{topic}?format=json" for topic in topics)
        found = Comparison(payments, totals, Rule(Expected()), workspace.root, SYSTEM_CLOCK).verdict()
    verdict = _verdict(found, timeline, sabotaged=sabotaged)
    workspace.picture.write_text(picture(timeline, verdict, passed=found.proven), encoding="utf-8")
    report = {"passed": found.proven, **course(plan, timeline), "audit": found.as_json()}
    workspace.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    tell(timeline, verdict, passed=found.proven)
    for each in found.findings:
        print(f"  {each.kind}: {each.record} at {', '.join(each.places)}")
    print(
        f"\nsee    {workspace.picture}   what happened, as a picture\n       {workspace.log}   the job's log"
    )
    return 0 if found.proven else 1


@contextlib.contextmanager
def _cluster(brokers: str | None) -> Iterator[str]:
    if brokers is not None:
        yield brokers
        return
    print("         starting a broker; a first start downloads it", flush=True)
    with KafkaService() as kafka:
        yield kafka.address


def _topics(address: str) -> tuple[str, str]:
    """New ones for payments and totals."""
    try:
        from tidegate.testing.services._client import create_topic
    except ImportError as error:
        raise MissingExtraError(
            "kafka support is not installed; run: pip install 'tidegate[kafka]'"
        ) from error
    name = new_id(8)
    topics = f"demo-payments-{name}", f"demo-totals-{name}"
    for topic in topics:
        create_topic(address, topic, PARTITIONS, SYSTEM_CLOCK)
    return topics


def _played(
    plan: Plan, workspace: Workspace, brokers: str, topics: tuple[str, str], *, sabotaged: bool
) -> Timeline:
    from tidegate.testing.kafka_demo._client import Feed

    options = {
        "--brokers": brokers,
        "--payments": topics[0],
        "--totals": topics[1],
        "--records": plan.records,
        "--interval-ms": plan.interval_ms,
        "--directory": workspace.root.resolve(),
    }
    said = [word for name, value in options.items() for word in (name, str(value))]
    said += ["--broken"] * sabotaged
    command = [sys.executable, "-P", "-m", "tidegate.testing.kafka_demo.job", *said]
    feed = Feed(brokers, topics[0], plan.records, plan.rate)

    def on_sample(sample: Sample) -> None:
        # A quarter for each run: some of it while the job is down, most while it works, so that a kill meets work.
        quarter = _SHARES if sample.settled else 1
        feed.allow(plan.records * (sample.run * _SHARES + quarter) // (_SHARES * (KILLS + 1)))

    with contextlib.closing(feed), open_screen(sys.stdout) as screen:
        scenario = Scenario(
            plan,
            workspace,
            screen,
            SYSTEM_CLOCK,
            command,
            on_sample=on_sample,
            slack_s=_SLACK_S,
        )
        scenario.play()
        feed.check()
    return scenario.timeline


def _verdict(found: Verdict, timeline: Timeline, *, sabotaged: bool) -> str:
    done = f"{len(timeline.kills)} kills, {len(timeline.checkpoints)} checkpoints"
    done += ", deliberate sabotage" if sabotaged else ""
    moved = f"{found.input.records:,} records in, {found.output.records:,} out, {done}"
    if found.proven:
        return f"nothing lost, nothing twice: {moved}"
    damage = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    return f"NOT exactly once: {damage}; {moved}"
