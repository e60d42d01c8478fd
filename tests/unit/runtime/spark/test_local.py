"""What tasks leave on a machine for the tasks of the next epoch, run in this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.unit.runtime.spark.orders import epoch_order
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.snapshot import MIN_LOG_BYTES
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext, Blobs, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.collection import CollectionSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.ids import CheckpointId, OperatorUid, PipelineId
from tidegate.runtime.job import Program
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark import tasks
from tidegate.runtime.spark.local import LARGE_BYTES, own_directory, removed
from tidegate.runtime.spark.messages import Outcome
from tidegate.runtime.spark.readers import Readers
from tidegate.runtime.spark.restore_routing import with_starts
from tidegate.runtime.working_directory import _in_common as shared, shared_directory
from tidegate.types import Types

WIDE = 1_000


class Keeps(KeyedProcessFunction):
    """Keeps a text of a thousand letters for each key, and counts how often it was there."""

    def open(self, runtime_context: Any) -> None:
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.text.update(f"{value:0{WIDE}}")
        self.count.update(self.count.value() + 1)
        yield value


@dataclass
class Epochs:
    """Runs epochs over the same numbers, each from what the one before has reported."""

    storage: MemoryStorage
    numbers: int
    backend: Backend
    options: JobOptions
    reports: dict[OperatorUid, RestoredOperator] = field(default_factory=dict)
    done: int = 0

    def run(self) -> Outcome:
        env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
        env.from_source(CollectionSource(range(self.numbers))).key_by(lambda n: n).process(Keeps())
        program = Program("keeps", PipelineId("keeps"), tuple(env._steps), self.options, parallelism=1)
        graph = program.graph(None)
        with contextlib.closing(Readers(graph, None, SYSTEM_CLOCK, lambda uid, reason: None)) as readers:
            reads = readers.orders(self.numbers)
        (subtask,) = [s for v in graph.vertices.values() if not v.is_source for s in v.subtasks]
        restored = {subtask: self.reports} if self.reports else {}
        order = replace(
            epoch_order(graph, self.options, storage=self.storage),
            backend=self.backend,
            checkpoint=CheckpointId(self.done + 1),
            confirmed=CheckpointId(self.done) if self.done else None,
        )
        reads = with_starts(order.shape, restored, reads)
        outcome, _ = tasks.conclude(order, 1, 0, (parcel for _, parcel in tasks.relay(order, 0, 0, reads)))
        removed()
        if outcome.result.error is not None:
            raise outcome.result.error
        return outcome

    def counted(self) -> KeyedHandle:
        """Run an epoch that counts; what it says of its state."""
        (report,) = [each for each in self.run().result.reports if each.keyed is not None]
        assert report.keyed is not None
        self.reports = {report.uid: RestoredOperator(keyed=(report.keyed,))}
        self.done += 1
        return report.keyed


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read from the storage."""
    names: list[str] = []
    contents = type(MemoryStorage().blobs)
    real = contents.open

    def noted(blobs: Blobs, name: str) -> BinaryIO:
        names.append(name)
        return real(blobs, name)

    monkeypatch.setattr(contents, "open", noted)
    return names


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory that Spark gives an executor."""
    monkeypatch.setattr(tasks, "_task_id", lambda: 7)
    place = tmp_path / "blockmgr"
    place.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place))
    return place


def epochs(backend: Backend, numbers: int = 100) -> Epochs:
    options = JobOptions(backend=backend.name, inline_bytes=0)
    return Epochs(MemoryStorage(), numbers, backend, options)


def test_a_task_goes_on_from_what_the_one_before_left_in_the_executor(
    executor: Path, read: list[str]
) -> None:
    job = epochs(RocksDBBackend())
    job.counted()
    job.counted()
    job.counted()
    assert read == []
    assert [path.name.split("-")[:2] for path in executor.iterdir()] == [["tidegate", "versions"]]


def test_a_task_in_a_new_executor_reads_the_storage(
    executor: Path, read: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = epochs(RocksDBBackend())
    first = job.counted()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    job.counted()
    assert set(read) == {chunk.name for chunk in first.chunks}  # type: ignore[union-attr]  # none is inline


@pytest.mark.parametrize(
    "given",
    [{"SPARK_EXECUTOR_DIRS": "/else:{}"}, {"LOCAL_DIRS": "/else,{}", "CONTAINER_ID": "container_7"}],
    ids=["standalone", "yarn"],
)
@pytest.mark.usefixtures("executor")
def test_a_task_goes_on_from_what_another_executor_of_the_machine_has_left(
    given: dict[str, str], read: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    job = epochs(RocksDBBackend())
    for name in ("blockmgr-one", "blockmgr-two", "blockmgr-one"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / name))
        job.counted()
    assert read == []


def test_a_task_does_not_go_on_from_what_an_execution_left_that_does_not_count(
    executor: Path, read: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = epochs(RocksDBBackend())
    job.counted()
    job.run()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    second = job.counted()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(executor))
    del read[:]
    job.counted()
    assert set(read) == {chunk.name for chunk in second.chunks}  # type: ignore[union-attr]  # none is inline


def test_the_state_of_a_task_lives_within_its_part_of_the_memory(
    executor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int | None] = []
    real = RocksDBBackend.open

    def noted(backend: RocksDBBackend, base: Any, key_groups: Any, context: BackendContext) -> Any:
        given.append(context.memory_bytes)
        return real(backend, base, key_groups, context)

    monkeypatch.setattr(RocksDBBackend, "open", noted)
    for share in (None, 2 * WIDE * WIDE):
        job = epochs(RocksDBBackend())
        job.options = replace(job.options, managed_bytes=share)
        job.counted()
    assert given == [None, 2 * WIDE * WIDE]


def test_a_task_does_not_go_on_from_what_another_user_may_have_left(executor: Path, read: list[str]) -> None:
    job = epochs(RocksDBBackend())
    first = job.counted()
    (left,) = executor.iterdir()
    left.chmod(0o777)
    shared.clear()
    with pytest.warns(RuntimeWarning, match=r"tidegate-versions-.* is not private to this user"):
        job.counted()
    assert set(read) == {chunk.name for chunk in first.chunks}  # type: ignore[union-attr]  # none is inline


@pytest.mark.parametrize(
    "place",
    ["blockmgr-1", "spark-1/executor-1", "spark-1/executor-1/blockmgr-1"],
    ids=["local", "standalone", "one executor"],
)
def test_what_a_dead_program_left_on_the_machine_is_swept_by_the_next_one(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (mine := tmp_path / "spark-2/executor-2/blockmgr-2").mkdir(parents=True)
    (dead := tmp_path / place).mkdir(parents=True)
    (alive := tmp_path / "spark-3/executor-3").mkdir(parents=True)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(mine))
    assert shared_directory(alive, "versions", "abc") is not None
    left = shared_directory(dead, "versions", "abc")
    assert left is not None
    os.close(shared.pop(left))

    own = own_directory(JobOptions(), 0)

    assert list(dead.glob("tidegate-*")) == []
    assert len(list(alive.iterdir())) == 1
    assert list(mine.iterdir()) == [own.path]


def test_two_pipelines_leave_their_state_apart(executor: Path) -> None:
    job = epochs(RocksDBBackend())
    job.counted()
    job.storage.url = "memory://another"
    job.reports, job.done = {}, 0
    job.counted()
    assert len(list(executor.iterdir())) == 2


def test_without_a_directory_of_spark_nothing_is_left(
    executor: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    job = epochs(RocksDBBackend())
    job.counted()
    job.counted()
    assert read
    assert list(executor.iterdir()) == []


@pytest.mark.parametrize("backend", [HeapBackend(), FilesystemBackend()], ids=["heap", "filesystem"])
def test_state_in_memory_that_has_become_large_is_kept_on_disk(
    executor: Path, read: list[str], backend: Backend
) -> None:
    small, large = epochs(backend, 10), epochs(backend, LARGE_BYTES // WIDE + 100)
    for job in (small, large):
        job.counted()
        job.counted()
    del read[:]
    large.counted()
    assert read == [], "only the backend on disk goes on from what was left"
    small.counted()
    assert read != []


def test_state_that_was_put_on_disk_is_read_by_the_backend_of_the_program(executor: Path) -> None:
    job = epochs(FilesystemBackend(), MIN_LOG_BYTES // WIDE + 100)
    job.counted()
    handle = job.counted()
    assert handle.base is not None
    assert handle.base.backend == "rocksdb"
    directory = executor / "embedded"
    directory.mkdir()
    assert sum(1 for _ in read_all(handle, job.storage, directory)) == job.numbers


def read_all(handle: KeyedHandle, storage: MemoryStorage, directory: Path) -> Iterator[Any]:
    context = BackendContext(directory, StorageFiles(storage.blobs, "run"), {})
    store = KeyedStore(FilesystemBackend(), handle.key_groups, handle.key_groups.last, (handle,), context)
    with contextlib.closing(store):
        store.state(ValueStateDescriptor("text", Types.STRING()))
        yield from store.keys("text")
