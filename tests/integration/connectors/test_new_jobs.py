"""What `tidegate new job` writes runs as its README says, and loses nothing when it is killed and started again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conformance.test_kafka import read_committed
from tests.waiting import PATIENCE_S, until
from tidegate.clock import new_id
from tidegate.testing.services import KafkaService

COMMAND = Path(sys.executable).with_name("tidegate")
SAMPLE = [("ann", 5), ("bob", 7), ("ann", 8), ("eve", 20), ("bob", 8), ("ann", 10)]
"""What the totals of the sample are, in its order."""


@dataclass
class Skeleton:
    """A job that was written, and the processes that were started in its directory."""

    folder: Path
    environment: Mapping[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str) -> Path:
        """Start the job; where what it says goes."""
        said = self.folder.parent / f"said-{len(self.started)}"
        with said.open("wb") as file:
            process = subprocess.Popen(
                command or (sys.executable, "-P", "job.py"),
                cwd=self.folder,
                env=self.environment,
                stderr=file,
            )
        self.started.append(process)
        return said

    def run(self, *command: str) -> str:
        """Run a command of the README to its end; what it shows."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def readme_lists(self, command: str) -> list[str]:
        """A command as the README prints it."""
        assert f"`{command}`" in (self.folder / "README.md").read_text()
        return [str(COMMAND), *command.split()[1:]]


@pytest.fixture
def skeleton(tmp_path: Path) -> Iterator[Callable[..., Skeleton]]:
    made: list[Skeleton] = []

    def write(template: str, name: str, **environment: str) -> Skeleton:
        command: list[str | Path] = [COMMAND, "new", "job", name, "--template", template]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        quick = {
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "TIDEGATE_EXECUTION_CHECKPOINTING_INTERVAL": "200 ms",
        }
        made.append(Skeleton(tmp_path / name, {**os.environ, **quick, **environment}))
        return made[-1]

    yield write
    for process in (process for each in made for process in each.started):
        process.kill()
        process.wait()


def lives_through_a_kill(
    job: Skeleton, name: str, more: Callable[[int], None], seen: Callable[[], Counter[tuple[str, int]]]
) -> None:
    """Follow the README, with a `kill -9` in between; `more` brings a payment of ann with this amount."""
    assert "problem" not in job.run(*job.readme_lists("tidegate check job.py"))
    expected, total = Counter(SAMPLE), 10
    job.start()
    until(seen, equals=expected)
    for _ in range(5):
        more(1)
        total += 1
        expected[("ann", total)] += 1
    job.started[-1].kill()
    job.started[-1].wait()

    said = job.start(*job.readme_lists("tidegate run -D parallelism.default=1 job.py"))
    until(seen, equals=expected)
    more(100)
    until(seen, equals=expected + Counter([("ann", total + 100)]))
    job.run(*job.readme_lists(f"tidegate stop {name}"))

    assert job.started[-1].wait(PATIENCE_S) == 0
    assert re.search(r"resuming from checkpoint \d+", said.read_text())
    assert seen() == expected + Counter([("ann", total + 100)])
    assert "total" in job.run(*job.readme_lists("tidegate plan job.py"))


@pytest.mark.processes
def test_a_job_between_files_lives_through_a_kill(skeleton: Callable[..., Skeleton]) -> None:
    job = skeleton("files", "totals")

    def more(amount: int) -> None:
        hidden = job.folder / "payment"
        hidden.write_text(json.dumps({"account": "ann", "amount": amount}) + "\n")
        hidden.rename(job.folder / "input" / f"{new_id(8)}.jsonl")

    def seen() -> Counter[tuple[str, int]]:
        files = [path for path in job.folder.glob("output/**/part-*") if ".tidegate" not in path.parts]
        totals = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        return Counter((total["account"], total["total"]) for total in totals)

    lives_through_a_kill(job, "totals", more, seen)


@pytest.mark.service
def test_a_job_between_topics_lives_through_a_kill(
    skeleton: Callable[..., Skeleton], kafka: KafkaService
) -> None:
    name = f"totals-{new_id(8)}"
    job = skeleton("kafka", name, KAFKA_BROKERS=kafka.address)
    assert "6 payments are sent" in job.run(sys.executable, "send.py")
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})

    def more(amount: int) -> None:
        producer.produce(f"{name}-payments", json.dumps({"account": "ann", "amount": amount}), "ann")
        assert producer.flush(PATIENCE_S) == 0

    def seen() -> Counter[tuple[str, int]]:
        totals = [json.loads(value) for value in read_committed(kafka, f"{name}-totals", 2)]
        return Counter((total["account"], total["total"]) for total in totals)

    lives_through_a_kill(job, name, more, seen)
