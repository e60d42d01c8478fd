"""A disk that is full for a while: checkpoints are declined, the job goes on, and nothing half-written is left."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pytest

from tests.integration.runtime.conftest import Executor
from tidegate.backends.spi import CheckpointStorage, Decision, Decisions
from tidegate.backends.storage import LocalStorage, MemoryStorage
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import UnavailableError
from tidegate.runtime.checkpoint.archive import Archive
from tidegate.runtime.checkpoint.manifest import files_of, metadata_name, settled_name
from tidegate.runtime.checkpoint.record import Record
from tidegate.types import Types

COUNT = 500
FULL_FROM, FULL_TO = 100, 400


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


class Fills(KeyedProcessFunction):
    """Keeps a text per key; between two records the disk of the checkpoints is full."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))
        inner, state, full = os.fsync, self.directory / "state", self.directory / "full"

        def fsync(fd: Any) -> None:
            path = Path(f"/proc/self/fd/{fd}").readlink()
            if full.exists() and path.is_relative_to(state) and not path.is_dir():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            inner(fd)

        os.fsync = fsync

    def process_element(self, value: dict[str, int], ctx: Any) -> Iterator[dict[str, int]]:
        if value["id"] == FULL_FROM:
            (self.directory / "full").touch()
        if value["id"] == FULL_TO:
            (self.directory / "full").unlink()
        self.kept.update(f"{value['id']} " * 50)
        yield value


def test_a_full_disk_costs_checkpoints_and_nothing_else(
    executor: Executor,
    backend: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", os.fsync)
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            **executor.settings,
            "pipeline.progress": "plain",
            "state.backend.type": backend,
            "state.backend.fs.memory-threshold": 0,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "state.checkpoints.num-retained": 1,
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )
    source = GeneratorSource(lambda n: {"id": n}, count=COUNT, splits=1, rate_per_second=300.0)
    filling = env.from_source(source).key_by(lambda value: value["id"] % 20).process(Fills(tmp_path))
    filling.sink_to(FileSink(tmp_path / "out"))

    result = env.execute("full")

    told = capfd.readouterr().err
    assert re.search(r"aborted: checkpoint \d+: .*: No space left on device; .* free space", told)
    texts = [path.read_text() for path in (tmp_path / "out").glob("part-*")]
    assert sorted(json.loads(line)["id"] for text in texts for line in text.splitlines()) == list(
        range(COUNT)
    )
    assert result.restarts == 0
    assert left_over(tmp_path / "state", "full") == set()


def left_over(root: Path, pipeline: str) -> set[str]:
    """Files of a storage that no decided checkpoint refers to."""
    storage = LocalStorage(root)
    decision = storage.decisions.read(f"{pipeline}/latest")
    assert decision is not None
    record = msgspec.msgpack.decode(decision.data, type=Record)
    archive = Archive(storage.blobs, storage.decisions)
    named = {f"{pipeline}/{path.name}" for path in (root / pipeline).iterdir()}
    for kept in record.retained:
        named |= {name(kept.run, kept.checkpoint) for name in (metadata_name, settled_name)}
        named |= files_of(archive.load(kept))
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - named


class Busy(MemoryStorage):
    """Misses one renewal of the lease and the first mark of a settled checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.missed: list[str] = []

    @property
    def decisions(self) -> Decisions:
        return _Busy(super().decisions, self)


class _Busy(Decisions):
    def __init__(self, inner: Decisions, storage: Busy) -> None:
        self._inner, self._storage = inner, storage

    def create(self, name: str, data: bytes) -> bool:
        self._miss("mark")
        return self._inner.create(name, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        # The first one comes with the start, which has to know that it is the owner.
        if msgspec.msgpack.decode(data, type=Record).renewals == 2:
            self._miss("renewal")
        return self._inner.swap(name, old_tag, data)

    def _miss(self, what: str) -> None:
        if what not in self._storage.missed:
            self._storage.missed.append(what)
            raise UnavailableError("no space left")

    def read(self, name: str) -> Decision | None:
        return self._inner.read(name)


def test_a_lease_not_renewed_once_and_a_mark_not_made_at_once_end_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Busy()
    opened: CheckpointStorage = storage
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: opened)
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.fixed-delay.attempts": 0,
            "high-availability.lease": "1500 ms",  # renewed three times in it, and the job takes two seconds
        }
    )
    env.from_source(GeneratorSource(lambda n: n, count=200, rate_per_second=100.0)).print()

    assert env.execute("busy").restarts == 0
    assert sorted(storage.missed) == ["mark", "renewal"]
