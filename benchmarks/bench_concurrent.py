"""What it costs that one checkpoint is under way at a time: how long a record takes until a sink has committed it.

Every upload of state takes a fixed time, as on a storage that answers late; checkpoints are due every 100 ms. The bound
is what any number of checkpoints under way could reach: the latency without delays, and one upload.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.harness import Bar, Measured, Report, Round, Verdict, main
from benchmarks.machine import CoreMeter, machine_facts
from tidegate.backends.storage.files import StorageFiles
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.twophase.function import TwoPhaseCommitSinkFunction
from tidegate.twophase.spi import CommitAnswer

RATE, SECONDS, INTERVAL_MS = 2_000.0, 8, 100
UPLOADS_MS = (0, 500, 1_000)
LIMIT = 2.0


class Committed(TwoPhaseCommitSinkFunction[str]):
    """Notes how long ago each record was made when its transaction is committed."""

    open_work: ClassVar[dict[str, list[float]]] = {}
    seconds: ClassVar[list[float]] = []

    def begin_transaction(self) -> str:
        name = f"{len(self.open_work)}"
        self.open_work[name] = []
        return name

    def invoke(self, transaction: str, value: Any, context: Any) -> None:
        self.open_work[transaction].append(value[1])

    def pre_commit(self, transaction: str) -> None:
        """In memory, as nothing is killed here."""

    def commit(self, transaction: str) -> CommitAnswer:
        now = time.monotonic()
        self.seconds.extend(now - made for made in self.open_work[transaction])
        self.open_work[transaction] = []
        return CommitAnswer.COMMITTED

    def abort(self, transaction: str) -> None:
        self.open_work[transaction] = []


@contextmanager
def uploads_take(milliseconds: int) -> Iterator[None]:
    """Let each file of state be stored so much later."""
    store = StorageFiles.store

    def late(self: StorageFiles, data: Any) -> Any:
        time.sleep(milliseconds / 1_000)
        return store(self, data)

    StorageFiles.store = late  # type: ignore[method-assign]
    try:
        yield
    finally:
        StorageFiles.store = store  # type: ignore[method-assign]


def latencies(upload_ms: int) -> tuple[list[float], float]:
    """Seconds from each record's making to its commit, and records a second."""
    Committed.open_work, Committed.seconds = {}, []
    with tempfile.TemporaryDirectory() as directory, uploads_take(upload_ms):
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "pipeline.progress": "off",
                "parallelism.default": 1,
                "state.checkpoints.dir": str(Path(directory) / "state"),
                "execution.checkpointing.interval": INTERVAL_MS,
            }
        )
        count = int(RATE * SECONDS)
        source = GeneratorSource(lambda n: (n % 1_000, time.monotonic()), count=count, rate_per_second=RATE)
        env.from_source(source).key_by(lambda pair: pair[0]).reduce(lambda _, new: new).add_sink(Committed())
        start = time.monotonic()
        env.execute("latency")
        return Committed.seconds, count / (time.monotonic() - start)


def build(rounds: int) -> Report:
    meter = CoreMeter()
    found = {upload_ms: latencies(upload_ms) for upload_ms in UPLOADS_MS}
    cases, verdicts = [], []
    for upload_ms, (seconds, per_second) in found.items():
        name = f"uploads of {upload_ms} ms"
        arguments = {"interval ms": INTERVAL_MS, "records per second": round(per_second)}
        cases.append(Measured(name, arguments, 1, 1, [Round(each, 0.0) for each in seconds]))
        bound = statistics.mean(found[0][0]) + upload_ms / 1_000
        ratio = statistics.mean(seconds) / bound
        print(
            f"{name}: mean {statistics.mean(seconds):.3f} s, bound {bound:.3f} s, {per_second:.0f} records/s"
        )
        verdicts.append(Verdict(Bar(name, "its bound", LIMIT), ratio, ratio, ratio, ratio <= LIMIT))
    return Report("concurrent", "wall_s", machine_facts(), meter.free_cores(), cases, verdicts)


if __name__ == "__main__":
    main(build)
