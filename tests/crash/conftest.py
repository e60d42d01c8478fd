"""A job that can be killed at a named point, started again, and audited."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.backends.storage import open_storage
from tidegate.connectors.base import RangeSplit
from tidegate.runtime.checkpoint.manifest import Manifest, decode
from tidegate.runtime.checkpoint.record import Record
from tidegate.testing.services.fixtures import kafka as kafka, postgres as postgres

PROGRAM = Path(__file__).parent / "programs" / "totals.py"
COUNT, RATE = 3_000, 3_000.0


@dataclass
class Job:
    """A program, unless told otherwise the running totals, with its own checkpoint root and output directory."""

    directory: Path
    settings: dict[str, Any] = field(default_factory=dict)
    program: Path = PROGRAM
    arguments: tuple[str, ...] = ()
    rate: float = RATE
    count: int = COUNT
    pipeline: str = "totals"
    patience_s: float = 120

    @property
    def output(self) -> Path:
        return self.directory / "output"

    @property
    def witnesses(self) -> Path:
        return self.directory / "witnesses"

    def run(self, **settings: Any) -> subprocess.CompletedProcess[str]:
        """Start the program and wait for its end; keyword `a__b` sets `a.b`."""
        given = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
        return subprocess.run(
            self.command(given), capture_output=True, text=True, timeout=self.patience_s, check=False
        )

    def command(self, settings: dict[str, Any]) -> list[str]:
        """What starts the program."""
        merged = {
            "state.checkpoints.dir": str(self.directory / "state"),
            "execution.checkpointing.interval": "100 ms",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.delay": "10 ms",
            **self.settings,
            **settings,
        }
        return [
            sys.executable,
            "-P",
            str(self.program),
            str(self.output),
            str(self.count),
            str(self.rate),
            json.dumps(merged),
            *self.arguments,
        ]

    def run_into(self, faults: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """Run with crash points armed."""
        armed = {"testing.faults": faults, "testing.faults-dir": str(self.witnesses)}
        return self.run(**armed, **settings)

    def kill_at(self, point: str, **settings: Any) -> None:
        """Run into a crash point of the JobManager and make sure that it died there."""
        died = self.run_into(point, **settings)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert self.reached(point), f"{point} was never passed"

    def reached(self, point: str) -> bool:
        """Whether a process died at the point; its witness file says so."""
        name = point.partition("/")[2] or point
        return any(path.name.endswith(f"-{name.partition('@')[0]}") for path in self.witnesses.glob("*"))

    def result(self, **settings: Any) -> dict[str, Any]:
        """Run to the end and return what the program prints of its result."""
        done = self.run(**settings)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def newest(self) -> Manifest | None:
        """The newest decided checkpoint."""
        return next(reversed(retained_by(self)), None)

    def unread(self) -> int:
        """How many records lie behind the positions of the newest decided checkpoint."""
        manifest = self.newest()
        if manifest is None:
            return self.count
        return sum(len(split.head(self.count)) for split in splits_of(manifest))

    def written(self) -> Counter[str]:
        """Every line of every visible file, with how often it is there."""
        return Counter(line for path in self.output.glob("part-*") for line in path.read_text().splitlines())

    def audit(self) -> list[str]:
        """What is wrong with the output: every record shall be there once, every total be a running sum."""
        return _audit([json.loads(line) for line in self.written().elements()])


def retained_by(job: Job) -> list[Manifest]:
    """All decided checkpoints that are kept, the newest one last."""
    storage = open_storage(str(job.directory / "state"))
    assert storage.decisions is not None
    decision = storage.decisions.read(f"{job.pipeline}/latest")
    assert decision is not None
    record = msgspec.msgpack.decode(decision.data, type=Record)
    found = []
    for each in record.retained:
        name = f"{each.run}/chk-{each.checkpoint}/_metadata"
        with storage.blobs.open(name) as file:
            found.append(decode(file.read(), name))
    return found


def splits_of(manifest: Manifest) -> list[RangeSplit]:
    """What a checkpoint says is still to be read, whoever would have read it."""
    (source,) = [operator for operator in manifest.operators if operator.coordinator is not None]
    assert source.coordinator is not None
    with_enumerator = msgspec.msgpack.decode(source.coordinator)
    waiting = [msgspec.convert(split, RangeSplit) for split in with_enumerator["splits"]]
    return [*(msgspec.msgpack.decode(split, type=RangeSplit) for split in source.splits), *waiting]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A fresh job."""
    return Job(tmp_path)


def _audit(rows: list[dict[str, Any]]) -> list[str]:
    seen = Counter(row["id"] for row in rows)
    wanted = Counter(number for number in range(COUNT) if number % 13 > 0)
    wrong = [f"record {n} is missing" for n in (wanted - seen)] + [
        f"record {n} is there twice" for n in (seen - wanted)
    ]
    by_account: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        by_account.setdefault(row["account"], []).append((row["total"], row["id"] % 13))
    for account, totals in by_account.items():
        running = 0
        for total, amount in sorted(totals):
            running += amount
            if total != running:
                wrong.append(f"{account}: total {total} where {running} was due")
                break
    return wrong
