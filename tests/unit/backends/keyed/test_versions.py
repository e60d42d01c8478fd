"""State that is left on a machine: it is gone on from only where it is exactly what the checkpoint says."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import KeyedStore, ValueStateDescriptor
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext, Chunk, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

ALL = KeyGroupRange(0, 8)
COUNT = ValueStateDescriptor("count", Types.LONG(), 0)


class CountingFiles(StorageFiles):
    """Knows how often the storage was read."""

    reads = 0

    def fetch(self, chunk: Chunk) -> bytes:
        self.reads += 1
        return super().fetch(chunk)


@dataclass
class Machines:
    """Runs epochs of one subtask on machines that share nothing but the storage."""

    root: Path
    backend: Backend = field(default_factory=RocksDBBackend)
    handles: tuple[KeyedHandle, ...] = ()
    """What the newest checkpoint that counts says."""

    def __post_init__(self) -> None:
        self.files = CountingFiles(MemoryStorage().blobs, "run", inline_threshold=0)
        self.number = 0
        self._opened = 0

    def versions(self, host: str) -> Path:
        return self.root / host / "versions"

    @contextmanager
    def opened(self, host: str, key_groups: KeyGroupRange = ALL) -> Iterator[KeyedStore]:
        """A store that goes on from the newest checkpoint."""
        self._opened += 1
        directory = self.root / host / f"work-{self._opened}"
        directory.mkdir(parents=True)
        context = BackendContext(directory, self.files, {}, versions=self.versions(host))
        store = KeyedStore(self.backend, key_groups, 8, self.handles, context)
        try:
            yield store
        finally:
            store.close()
            shutil.rmtree(directory)

    def epoch(self, host: str, changes: dict[str, int], *, counts: bool = True) -> int:
        """Add to counts and take a checkpoint; how often the storage was read meanwhile."""
        before = self.files.reads
        with self.opened(host) as store:
            for key, more in changes.items():
                store.bind(key)
                state = store.value_state(COUNT)
                state.update(state.value() + more)
            confirmed = CheckpointId(self.number) if self.number else None
            handle = store.snapshot(CheckpointId(self.number + 1), confirmed).finish()
        if counts:
            self.number += 1
            self.handles = (handle,)
        return self.files.reads - before

    def counts(self, host: str, keys: list[str]) -> dict[str, int]:
        """The counts as a task on this machine sees them."""
        found = {}
        with self.opened(host) as store:
            for key in keys:
                store.bind(key)
                found[key] = store.value_state(COUNT).value()
        return found


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def test_the_next_epoch_on_the_same_machine_reads_nothing_from_the_storage(machines: Machines) -> None:
    machines.epoch("a", {"x": 1, "y": 10})
    assert machines.epoch("a", {"x": 1}) == 0
    assert machines.epoch("a", {"y": 1}) == 0
    assert machines.counts("a", ["x", "y"]) == {"x": 2, "y": 11}


def test_another_machine_reads_the_storage(machines: Machines) -> None:
    machines.epoch("a", {"x": 1})
    assert machines.epoch("b", {"x": 1}) > 0
    assert machines.counts("b", ["x"]) == {"x": 2}


def test_a_version_of_an_earlier_epoch_is_not_taken_for_the_newest(machines: Machines) -> None:
    machines.epoch("a", {"x": 1})
    machines.epoch("b", {"x": 10})
    machines.epoch("b", {"x": 100})
    assert machines.epoch("a", {"x": 1_000}) > 0
    assert machines.counts("a", ["x"]) == {"x": 1_111}


def test_a_version_of_an_execution_that_does_not_count_is_passed_over(machines: Machines) -> None:
    machines.epoch("a", {"x": 1})
    machines.epoch("a", {"x": 7, "never": 1}, counts=False)
    machines.epoch("b", {"x": 10})
    assert machines.epoch("a", {"x": 100}) > 0
    assert machines.counts("a", ["x", "never"]) == {"x": 111, "never": 0}


def test_an_epoch_that_runs_again_goes_on_from_the_same_version(machines: Machines) -> None:
    machines.epoch("a", {"x": 1})
    assert machines.epoch("a", {"x": 7}, counts=False) == 0
    assert machines.epoch("a", {"x": 10}) == 0
    assert machines.counts("a", ["x"]) == {"x": 11}


def test_two_tasks_go_on_from_one_version_at_the_same_time(machines: Machines) -> None:
    machines.epoch("a", {"x": 1})
    before = machines.files.reads
    with machines.opened("a") as one, machines.opened("a") as other:
        for store, value in ((one, 5), (other, 6)):
            store.bind("x")
            store.value_state(COUNT).update(value)
            store.snapshot(CheckpointId(2), CheckpointId(1)).finish()
    assert machines.files.reads == before
    assert machines.counts("a", ["x"]) == {"x": 1}


@pytest.mark.parametrize("damaged", ["CURRENT", "table", "MANIFEST-*", "*.sst"])
def test_a_damaged_version_costs_a_look_at_the_storage(machines: Machines, damaged: str) -> None:
    machines.epoch("a", {"x": 1})
    (path,) = machines.versions("a").rglob(damaged)
    path.unlink()
    path.write_bytes(b"")
    assert machines.epoch("a", {"x": 1}) > 0
    assert machines.counts("a", ["x"]) == {"x": 2}


def test_what_was_not_part_of_a_checkpoint_is_no_version(machines: Machines) -> None:
    with machines.opened("a") as store:
        store.bind("x")
        store.value_state(COUNT).update(1)
    with machines.opened("a") as store:
        store.snapshot(CheckpointId(1), None).finish()
        store.bind("x")
        store.value_state(COUNT).update(1)
        store.end_batch()
        store.snapshot(CheckpointId(2), None)  # never finished, as if the storage did not answer
    assert not machines.versions("a").exists()


def test_the_newest_versions_are_kept(machines: Machines) -> None:
    for number in range(6):
        machines.epoch("a", {"x": number})
    assert len(list(machines.versions("a").iterdir())) == 3
    assert machines.epoch("a", {"x": 1}) == 0


def test_other_key_groups_are_read_from_the_storage(machines: Machines) -> None:
    machines.epoch("a", {f"k{number}": 1 for number in range(50)})
    before = machines.files.reads
    with machines.opened("a", KeyGroupRange(0, 4)):
        pass
    assert machines.files.reads > before


def test_a_backend_that_leaves_nothing_reads_the_storage(tmp_path: Path) -> None:
    machines = Machines(tmp_path, FilesystemBackend())
    machines.epoch("a", {"x": 1})
    assert machines.epoch("a", {"x": 1}) > 0
    assert machines.counts("a", ["x"]) == {"x": 2}
    assert not machines.versions("a").exists()


def test_a_base_after_many_epochs_uploads_only_what_is_new(machines: Machines) -> None:
    keys = {f"k{number}": 1 for number in range(200)}
    for _ in range(80):
        machines.epoch("a", keys)
    (handle,) = machines.handles
    assert handle.base is not None
    assert machines.counts("b", list(keys)) == dict.fromkeys(keys, 80)


def test_whatever_machine_an_epoch_runs_on_it_finds_the_state_of_the_last_one_that_counts(
    machines: Machines,
) -> None:
    chance, expected = random.Random(7), dict.fromkeys("vwxyz", 0)
    read = []
    for _ in range(60):
        host = chance.choice("ab")
        changes = {chance.choice("vwxyz"): chance.randint(1, 9) for _ in range(2)}
        counts = chance.random() < 0.7
        read.append(machines.epoch(host, changes, counts=counts))
        if counts:
            expected.update({key: expected[key] + more for key, more in changes.items()})
        assert machines.counts(host, list("vwxyz")) == expected
    assert 0 < read.count(0) < len(read)
