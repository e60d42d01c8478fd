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

    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        return self.inner.scan(first, last, reverse=reverse, limit=limit)

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


class InclusiveReverse(Honest):
    """In reverse it begins with the end of the range, which is not part of it."""

    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        if reverse:
            last += b"\0"
        return self.inner.scan(first, last, reverse=reverse, limit=limit)


class CountingTheGone(Honest):
    """What was removed counts where a scan has a limit."""

    def __init__(self, inner: Materialisation, base: BaseHandle | None) -> None:
        super().__init__(inner, base)
        self.gone: set[Address] = set()

    def apply(self, entries: Iterable[Entry]) -> None:
        written = dict(entries)
        self.gone.update(at for at, value in written.items() if value is None)
        self.inner.apply(written.items())

    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        if limit is not None:
            limit = max(0, limit - sum(first <= at < last for at in self.gone))
        return self.inner.scan(first, last, reverse=reverse, limit=limit)


class StaleOrder(Honest):
    """It knows the addresses there were at its first scan, and looks at the others never again."""

    def __init__(self, inner: Materialisation, base: BaseHandle | None) -> None:
        super().__init__(inner, base)
        self.known: set[Address] | None = None

    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        if self.known is None:
            self.known = {at for at, _ in self.inner.scan(b"", b"\xff")}
        found = self.inner.scan(first, last, reverse=reverse, limit=limit)
        return (entry for entry in found if entry[0] in self.known)


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


class SuiteOfAnInclusiveReverse(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(FilesystemBackend(), InclusiveReverse)


class SuiteOfCountingTheGone(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(FilesystemBackend(), CountingTheGone)


class SuiteOfAStaleOrder(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return Broken(FilesystemBackend(), StaleOrder)


BROKEN = [
    pytest.param(
        SuiteOfAnInclusiveReverse,
        "test_scan_in_reverse_is_descending_over_the_same_range",
        id="inclusive reverse",
    ),
    pytest.param(SuiteOfCountingTheGone, "test_a_limit_counts_existing_entries", id="counting the gone"),
    pytest.param(SuiteOfAStaleOrder, "test_scan_sees_what_was_written_since_the_last_one", id="stale order"),
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
