"""Restarts read the copies that a task manager kept, and the storage where a copy is missing or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle
import pytest

from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.backends.storage.copies import CopiedFiles
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.errors import UnavailableError
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.options import JobOptions

COUNT = 400


class FailsOnce(KeyedProcessFunction):
    """Counts per key; fails once, when there is something to restore."""

    counted = state.Value(int, default=0)

    def __init__(self, at_failure: Callable[[], bool]) -> None:
        self.at_failure = at_failure

    def process_element(self, value: int, ctx: Any) -> Any:
        if self.at_failure():
            raise UnavailableError("a machine is gone")
        self.counted.update(self.counted.value() + 1)
        yield self.counted.value()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files of state that are read from the storage."""
    names: list[str] = []
    blobs = type(LocalStorage(tmp_path).blobs)
    opened = blobs.open

    def watched(self: Any, name: str) -> BinaryIO:
        if "/shared/" in name:
            names.append(name)
        return opened(self, name)

    monkeypatch.setattr(blobs, "open", watched)
    return names


def run(
    tmp_path: Path,
    backend: str,
    *,
    local: bool,
    then: Callable[[Path], None] = lambda copy: None,
    target: str = "inline",
) -> None:
    """A job that fails after two checkpoints; `then` is done to each copy first."""
    (tmp_path / "local").mkdir()

    def at_failure() -> bool:
        settled = list((tmp_path / "state").glob("*/chk-*/_settled"))
        if (tmp_path / "failed").exists() or len(settled) < 2:
            return False
        (tmp_path / "failed").touch()
        for copy in copies(tmp_path):
            then(copy)
        return True

    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": 1 if target == "inline" else 2,
            "state.backend.type": backend,
            "state.backend.local-recovery": local,
            "state.backend.fs.memory-threshold": 0,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "taskmanager.state.local.root-dirs": str(tmp_path / "local"),
            "execution.checkpointing.interval": "10 ms",
            "restart-strategy.fixed-delay.delay": "0 ms",
            "pipeline.progress": "off",
        }
    )
    numbers = env.from_source(GeneratorSource(int, COUNT, rate_per_second=400.0))
    counts = numbers.key_by(lambda number: number % 4).process(FailsOnce(at_failure))
    counts.sink_to(FileSink(str(tmp_path / "output")))
    env.execute("counting")
    lines = [line for part in (tmp_path / "output").glob("part-*") for line in part.read_text().split()]
    assert sorted(map(int, lines)) == sorted(list(range(1, COUNT // 4 + 1)) * 4)
    assert (tmp_path / "failed").exists()
    assert copies(tmp_path) == []


def original(tmp_path: Path, copy: Path) -> Path:
    return tmp_path / "state" / copy.name.replace("_", "/")


def copies(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "local").glob("tidegate-copies-*/*/*"))


@pytest.mark.parametrize("backend", ["filesystem", "rocksdb"])
def test_a_restart_reads_no_file_of_state_from_the_storage(
    tmp_path: Path, reads: list[str], backend: str
) -> None:
    run(tmp_path, backend, local=True)
    assert reads == []


@pytest.mark.processes
def test_a_new_process_finds_the_copies_of_the_one_it_replaces(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The originals are gone, so only copies can be what it starts from."""
    cloudpickle.register_pickle_by_value(request.module)
    try:
        run(
            tmp_path,
            "filesystem",
            local=True,
            then=lambda copy: original(tmp_path, copy).unlink(missing_ok=True),
            target="embedded",
        )
    finally:
        cloudpickle.unregister_pickle_by_value(request.module)


def test_without_copies_it_does(tmp_path: Path, reads: list[str]) -> None:
    run(tmp_path, "filesystem", local=False)
    assert reads


@pytest.mark.parametrize(
    "damage",
    [lambda copy: copy.write_bytes(b"other"), lambda copy: copy.unlink(), lambda copy: copy.write_bytes(b"")],
    ids=["changed", "gone", "torn"],
)
def test_a_copy_that_is_not_intact_is_read_from_the_storage(
    tmp_path: Path, reads: list[str], damage: Callable[[Path], None]
) -> None:
    run(tmp_path, "filesystem", local=True, then=damage)
    assert reads


def test_copies_are_kept_no_longer_than_their_originals(tmp_path: Path) -> None:
    options = JobOptions(local_recovery=True, local_dirs=(str(tmp_path / "one"), str(tmp_path / "two")))
    mine, other = LocalRecovery(options), LocalRecovery(options)
    storage = LocalStorage(tmp_path / "storage")
    for worker in (0, 1):
        for owner, prefix in ((mine, "mine/shared"), (other, "other/shared")):
            files = copied(owner, worker, files_at(storage, prefix))
            files.store(b"a" * 100)
            files.store(b"b" * 100)
    first, second, third, _ = storage.blobs.list("mine/shared/")

    mine.forget([first])
    assert left(tmp_path) == {"mine": 3, "other": 4}
    mine.keep_only([second, third])
    assert left(tmp_path) == {"mine": 2, "other": 4}
    mine.remove()
    assert left(tmp_path) == {"other": 4}


def test_a_full_disk_costs_only_the_copy(tmp_path: Path) -> None:
    (tmp_path / "local").write_text("a file, where a directory is needed")
    options = JobOptions(local_recovery=True, local_dirs=(str(tmp_path / "local"),))
    storage = LocalStorage(tmp_path / "storage")
    assert LocalRecovery(options).directory(0) is None
    files = CopiedFiles(files_at(storage, "mine/shared"), tmp_path / "local" / "worker-0")
    chunk = files.store(b"a" * 100)
    assert files.fetch(chunk) == b"a" * 100


def copied(owner: LocalRecovery, worker: int, files: StorageFiles) -> CopiedFiles:
    directory = owner.directory(worker)
    assert directory is not None
    return CopiedFiles(files, directory)


def files_at(storage: LocalStorage, prefix: str) -> StorageFiles:
    return StorageFiles(storage.blobs, prefix, inline_threshold=0)


def left(tmp_path: Path) -> Counter[str]:
    """Copies by run."""
    return Counter(copy.name.split("_")[0] for copy in tmp_path.glob("*/tidegate-copies-*/*/*"))
