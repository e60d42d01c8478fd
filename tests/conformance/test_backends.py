"""Every backend passes the kit that authors get, and the kit catches broken ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    BaseHandle,
    Cut,
    Entry,
    Materialisation,
    SnapshotFiles,
    StoredChunk,
)
from tidegate.backends.storage import StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.testing.backend import BackendSuite
from tidegate.testing.doubles import passes


class TestFilesystemBackend(BackendSuite):
    """Memory, with bases as files."""

    @pytest.fixture
    def backend(self) -> Backend:
        return FilesystemBackend()


class TestHeapBackend(BackendSuite):
    """Memory, with bases in the metadata."""

    @pytest.fixture
    def backend(self) -> Backend:
        return HeapBackend()


class TestRocksDBBackend(BackendSuite):
    """Local disk."""

    @pytest.fixture
    def backend(self) -> Backend:
        return RocksDBBackend()


class Honest(Materialisation):
    """Passes everything on; the doubles below break one method each."""

    def __init__(self, inner: Materialisation, base: BaseHandle | None) -> None:
        self.inner = inner
        self.base = base

    def get_many(self, addresses: Sequence[Address]) -> list[bytes | None]:
        return self.inner.get_many(addresses)

    def apply(self, entries: Iterable[Entry]) -> None:
        self.inner.apply(entries)

    def scan(self, first: Address, last: Address) -> Iterator[tuple[Address, bytes]]:
        return self.inner.scan(first, last)

    def cut(self, checkpoint: CheckpointId) -> Cut:
        return self.inner.cut(checkpoint)

    def close(self) -> None:
        self.inner.close()


class AliasingSnapshot(Honest):
    """Its cut is the live content."""

    def cut(self, checkpoint: CheckpointId) -> Cut:
        live = self.inner

        class LateCut(Cut):
            def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
                return live.cut(checkpoint).publish(files, confirmed)

            def release(self) -> None:
                pass

        return LateCut()


class LostSegment(Honest):
    """After a restore it forgets the log that follows its base."""

    def apply(self, entries: Iterable[Entry]) -> None:
        if self.base is None:
            self.inner.apply(entries)


class SkippedUpload(Honest):
    """Takes what it uploaded last for confirmed."""

    def cut(self, checkpoint: CheckpointId) -> Cut:
        owner, honest = self, self.inner.cut(checkpoint)

        class HastyCut(Cut):
            def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
                owner.base = honest.publish(files, owner.base)
                return owner.base

            def release(self) -> None:
                honest.release()

        return HastyCut()


class EarlyDelete(Honest):
    """Deletes the confirmed base once there is a newer one."""

    def cut(self, checkpoint: CheckpointId) -> Cut:
        honest = self.inner.cut(checkpoint)

        class TidyCut(Cut):
            def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
                base = honest.publish(files, confirmed)
                kept = {chunk.name for _, chunk in base.files if isinstance(chunk, StoredChunk)}
                old = confirmed.files if confirmed is not None else ()
                names = [chunk.name for _, chunk in old if isinstance(chunk, StoredChunk)]
                assert isinstance(files, StorageFiles)
                files._blobs.delete([name for name in names if name not in kept])
                return base

            def release(self) -> None:
                honest.release()

        return TidyCut()


@dataclass(frozen=True)
class Broken(Backend):
    """Wraps what another backend opens."""

    name: ClassVar[str] = "broken"
    inner: Backend
    double: type[Honest]

    def open(
        self, base: BaseHandle | None, key_groups: KeyGroupRange, context: BackendContext
    ) -> Materialisation:
        return self.double(self.inner.open(base, key_groups, context), base)

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        return self.inner.read(base, context)


class SuiteOfAnAliasingSnapshot(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(FilesystemBackend(), AliasingSnapshot)


class SuiteOfALostSegment(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(FilesystemBackend(), LostSegment)


class SuiteOfAnEarlyDelete(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(FilesystemBackend(), EarlyDelete)


class SuiteOfASkippedUpload(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(RocksDBBackend(), SkippedUpload)


BROKEN = [
    pytest.param(SuiteOfAnAliasingSnapshot, "test_cut_does_not_see_later_writes", id="aliasing snapshot"),
    pytest.param(SuiteOfALostSegment, "test_restored_state_can_be_written_and_cut", id="lost segment"),
    pytest.param(SuiteOfAnEarlyDelete, "test_confirmed_base_stays_until_others_delete_it", id="early delete"),
    pytest.param(
        SuiteOfASkippedUpload, "test_base_refers_to_no_file_that_was_not_confirmed", id="skipped upload"
    ),
]


@pytest.mark.parametrize(("suite", "clause"), BROKEN)
def test_a_broken_backend_fails_its_clause(suite: type[BackendSuite], clause: str) -> None:
    assert not passes(suite, clause)


@pytest.mark.parametrize(("suite", "clause"), BROKEN)
def test_a_broken_backend_passes_clauses_about_other_things(suite: type[BackendSuite], clause: str) -> None:
    assert passes(suite, "test_get_many_answers_in_order", "test_scan_is_ascending_and_half_open")
