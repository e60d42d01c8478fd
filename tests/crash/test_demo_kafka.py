"""The demo on Kafka: killed three times under load it is proven, and without transactions it is found out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate.testing.kafka_demo import layout
from tidegate.testing.services import KafkaService

pytestmark = [pytest.mark.crash, pytest.mark.service]

RECORDS = 10_000
SEED = "1"


def test_kills_under_load_are_proven_harmless_and_without_transactions_found_out(
    kafka: KafkaService, tmp_path: Path
) -> None:
    """Both at once: most of their time is waiting."""
    sound, broken = (tmp_path / name for name in ("sound", "broken"))
    playing = [demo(kafka, sound), demo(kafka, broken, "--sabotage")]
    try:
        said = [process.communicate(timeout=180)[0] for process in playing]
    finally:
        for process in playing:
            process.kill()
            process.wait()

    report = report_of(sound)
    assert playing[0].returncode == 0, said[0]
    assert (report["passed"], report["audit"]["proven"], report["audit"]["findings"]) == (True, True, [])
    assert [kill["code"] for kill in report["kills"]] == [-9, -9, -9]
    assert report["audit"]["input"]["records"] == RECORDS
    assert report["audit"]["output"]["hidden"] == [], "no transaction is left open"
    assert report["checkpoints"] >= 4
    written = report["audit"]["output"]["records"]
    assert f"nothing lost, nothing twice: {RECORDS:,} records in, {written:,} out, 3 kills" in said[0]
    assert (sound / "timeline.svg").read_text().count(">kill -9<") == 3

    report = report_of(broken)
    assert playing[1].returncode == 1, said[1]
    audit = report["audit"]
    assert (report["passed"], audit["missing"], audit["unexpected"], audit["duplicate"] > 0) == (
        False,
        0,
        0,
        True,
    )
    assert audit["output"]["records"] == written + audit["duplicate"]
    assert f"NOT exactly once: {audit['duplicate']:,} duplicate" in said[1]
    assert "duplicate: {" in said[1]


def demo(kafka: KafkaService, directory: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "tidegate.runtime.cli.main", "demo", "--brokers", kafka.address]
    asked = ["--records", str(RECORDS), "--seed", SEED, "--directory", str(directory)]
    return subprocess.Popen(
        [*command, *asked, *options],
        cwd=directory.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def report_of(directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return report


def test_the_partitions_of_a_topic_end_where_the_layout_says() -> None:
    ends = layout.ends(1_000)

    assert sum(ends.values()) == 1_000
    assert min(ends.values()) > 0
    assert layout.partition_of("north-572") == layout.partition_of("north-572") < layout.PARTITIONS
