"""A storage and functions that fail now and then: the job restarts, and every record is there once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.integration.runtime.audit import faults_in_totals
from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.backends.storage import MemoryStorage
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import UnavailableError
from tidegate.runtime.result import JobResult

COUNT = 1_500


class Moody(CheckpointStorage):
    """Does not answer now and then: before or after it did what it was asked."""

    def __init__(self, seed: int, share: float) -> None:
        self.url = "memory://moody"
        self.chance = random.Random(seed)
        self.share = share
        self.failures = 0
        self._inner = MemoryStorage()

    def fail(self, moment: str) -> None:
        if self.chance.random() < self.share:
            self.failures += 1
            raise UnavailableError(f"the storage did not answer {moment}")

    @property
    def blobs(self) -> Blobs:
        return _Blobs(self, self._inner.blobs)

    @property
    def decisions(self) -> Decisions:
        assert self._inner.decisions is not None
        return _Decisions(self, self._inner.decisions)


class _Blobs(Blobs):
    def __init__(self, storage: Moody, inner: Blobs) -> None:
        self._storage, self._inner = storage, inner

    def put(self, name: str, source: bytes | Path) -> None:
        self._storage.fail("before a put")
        self._inner.put(name, source)
        self._storage.fail("after a put")

    def open(self, name: str) -> BinaryIO:
        return self._inner.open(name)

    def list(self, prefix: str) -> list[str]:
        return self._inner.list(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._inner.delete(names)


class _Decisions(Decisions):
    def __init__(self, storage: Moody, inner: Decisions) -> None:
        self._storage, self._inner = storage, inner

    def create(self, name: str, data: bytes) -> bool:
        created = self._inner.create(name, data)
        self._storage.fail("after a create")
        return created

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        if old_tag is None:
            return self._inner.swap(name, old_tag, data)
        self._storage.fail("before a swap")
        swapped = self._inner.swap(name, old_tag, data)
        self._storage.fail("after a swap")
        return swapped

    def read(self, name: str) -> Decision | None:
        return self._inner.read(name)


class Hesitant(Moody):
    """Does not take the first pieces it is given."""

    def __init__(self, refused: int) -> None:
        super().__init__(0, share=0.0)
        self.refused = refused

    def fail(self, moment: str) -> None:
        if moment == "before a put" and self.failures < self.refused:
            self.failures += 1
            raise UnavailableError(f"the storage did not answer {moment}")


class Totals(KeyedProcessFunction):
    """Sums per account; fails on one record as long as a file is missing, which it makes then."""

    def __init__(self, once: Path | None) -> None:
        self.once = once

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.once is not None and value["id"] == COUNT // 2 and not self.once.exists():
            self.once.touch()
            raise ConnectionError("try again")
        self.total.update(self.total.value() + value["amount"])
        yield {**value, "total": self.total.value()}


def run(directory: Path, once: Path | None, rate: float, mode: str = "STREAMING") -> JobResult:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "execution.runtime-mode": mode,
            "parallelism.default": 2,
            "state.checkpoints.dir": str(directory / "state"),
            "state.backend.fs.memory-threshold": 0,
            "state.checkpoints.num-retained": 1,
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.fixed-delay.attempts": 100,
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    source = GeneratorSource(
        lambda n: {"id": n, "account": n % 7, "amount": n % 13}, count=COUNT, splits=3, rate_per_second=rate
    )
    paid = env.from_source(source).filter(lambda value: value["amount"] > 0)
    paid.key_by(lambda value: value["account"]).process(Totals(once)).sink_to(FileSink(directory / "out"))
    return env.execute("totals")


def rows(directory: Path) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in (directory / "out").glob("part-*")]
    return [json.loads(line) for text in texts for line in text.splitlines()]


@pytest.mark.parametrize("seed", range(8))
def test_a_storage_that_does_not_answer_costs_time_but_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    storage = Moody(seed, share=0.04)
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: storage)

    result = run(tmp_path, None, rate=3_000.0)

    assert faults_in_totals(rows(tmp_path), COUNT) == []
    assert result.state == "finished"
    assert storage.failures > 0


def test_the_only_checkpoint_of_a_batch_job_is_taken_again_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Hesitant(refused=2)
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: storage)

    result = run(tmp_path, None, rate=100_000.0, mode="BATCH")

    assert faults_in_totals(rows(tmp_path), COUNT) == []
    assert (result.state, result.restarts, result.checkpoint) == ("finished", 0, 3)
    assert storage.failures == storage.refused


def test_a_function_that_fails_once_is_tried_again_from_the_last_checkpoint(tmp_path: Path) -> None:
    result = run(tmp_path, tmp_path / "once", rate=3_000.0)

    assert faults_in_totals(rows(tmp_path), COUNT) == []
    assert (result.state, result.restarts) == ("finished", 1)
    assert result.records < 2 * COUNT, "it did not begin anew"


def test_nothing_but_the_last_checkpoint_is_left_on_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Moody(0, share=0.0)
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: storage)

    result = run(tmp_path, None, rate=3_000.0)

    marks = storage.blobs.list(f"{result.run}/chk-")
    assert marks == [f"{result.run}/chk-{result.checkpoint}/{name}" for name in ("_metadata", "_settled")]
