"""New bases: cut at a barrier, uploaded while checkpoints go on, referred to once they are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tidegate import faults
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore, ValueStateDescriptor, snapshot
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, KeyedHandle, StoredChunk
from tidegate.backends.storage import MemoryStorage
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.testing.collection_model import CollectionModel
from tidegate.testing.keyed_machine import Uploads
from tidegate.testing.keyed_model import KeyedModel
from tidegate.types import Types

Open = Callable[..., KeyedStore]

TEXT = ValueStateDescriptor("text", Types.STRING())

BACKENDS = [HeapBackend(), FilesystemBackend(), RocksDBBackend()]


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    chosen: Backend = request.param
    return chosen


@pytest.fixture(autouse=True)
def few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base is due after 6 segments and cut after 3."""
    monkeypatch.setattr(snapshot, "MAX_SEGMENTS", 6)
    monkeypatch.setattr(snapshot, "EARLY", 0.5)


@pytest.fixture
def uploads(storage: MemoryStorage) -> Uploads:
    return Uploads(storage.blobs)


@pytest.fixture
def job(open_store: Open, uploads: Uploads, backend: Backend, storage: MemoryStorage) -> Job:
    return Job(open_store, open_store(backend=backend, uploads=uploads), backend, storage)


class Job:
    """A store whose checkpoints are decided one after the other."""

    def __init__(self, open_store: Open, store: KeyedStore, backend: Backend, storage: MemoryStorage) -> None:
        self.store = store
        self.number = 0
        self.confirmed: CheckpointId | None = None
        self._open = open_store
        self._backend = backend
        self._storage = storage

    def write(self, **texts: str) -> None:
        for key, text in texts.items():
            self.store.bind(key)
            self.store.value_state(TEXT).update(text)

    def pending(self) -> snapshot.PendingSnapshot:
        """A barrier; each checkpoint changes something."""
        self.number += 1
        self.write(number=str(self.number))
        return self.store.snapshot(CheckpointId(self.number), self.confirmed)

    def decided(self) -> KeyedHandle:
        handle = self.pending().finish()
        self.confirmed = CheckpointId(self.number)
        return handle

    def close(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Close the store for good; whoever opened it will not do it again."""
        self.store.close()
        monkeypatch.setattr(self.store, "close", lambda: None)

    def cut_base(self) -> KeyedHandle:
        """Take checkpoints until the next one cuts a base, and that one."""
        for _ in range(4):
            handle = self.decided()
        return handle

    def holds(self, handle: KeyedHandle, **texts: str) -> None:
        """Nothing but the handle's files is needed for these to be there."""
        kept = {chunk.name for chunk in handle.chunks if isinstance(chunk, StoredChunk)}
        for name in set(self._storage.blobs.list("")).difference(kept):
            self._storage.blobs.delete([name])
        again = self._open(handle, backend=self._backend)
        for key, text in texts.items():
            again.bind(key)
            assert again.value_state(TEXT).value() == text


def test_checkpoints_go_on_without_the_base_that_is_uploaded(job: Job, uploads: Uploads) -> None:
    job.write(early="x")
    cutting = job.cut_base()
    assert len(uploads.waiting) == 1
    after = job.decided()
    assert cutting.base is None
    assert after.base is None
    assert after.segments[:-1] == cutting.segments
    job.holds(after, early="x", number="5")


def test_a_complete_base_replaces_what_lies_before_its_cut(job: Job, uploads: Uploads) -> None:
    job.write(early="x", changed="before")
    job.cut_base()
    job.write(changed="after")
    meanwhile = job.decided()
    uploads.run()
    based = job.decided()
    assert based.base is not None
    # What came with the base, the segment of the checkpoint that cut it, the one meanwhile and the new one.
    assert len(based.segments) == 4
    assert based.segments[2] == meanwhile.segments[-1]
    job.holds(based, early="x", changed="after", number="6")


def test_what_is_deleted_after_the_cut_stays_deleted(job: Job, uploads: Uploads) -> None:
    job.write(gone="x")
    job.cut_base()
    job.store.bind("gone")
    job.store.value_state(TEXT).clear()
    job.decided()
    uploads.run()
    based = job.decided()
    job.store = job._open(based, backend=job._backend)
    job.store.bind("gone")
    assert job.store.value_state(TEXT).value() is None


def test_a_base_whose_own_checkpoint_was_declined_serves_the_next_one(job: Job, uploads: Uploads) -> None:
    job.write(early="x")
    for _ in range(3):
        job.decided()
    job.write(during="y")
    job.pending().finish()
    uploads.run()
    job.write(late="z")
    based = job.decided()
    assert based.base is not None
    job.holds(based, early="x", during="y", late="z")


def test_a_base_serves_until_a_checkpoint_with_it_is_decided(job: Job, uploads: Uploads) -> None:
    job.cut_base()
    uploads.run()
    declined = job.pending().finish()
    again = job.decided()
    assert declined.base is not None
    assert again.base is declined.base
    assert declined.segments[-1] not in again.segments
    assert job.decided().base is again.base
    job.holds(again, number="6")


def test_there_are_never_more_segments_than_a_restore_may_read(job: Job) -> None:
    """The storage is slow, so the checkpoint that reaches the limit waits for it."""
    counts = [len(job.decided().segments) for _ in range(20)]
    assert max(counts) == 6
    job.holds(job.decided(), number="21")


def test_the_next_base_builds_on_the_one_before(job: Job, uploads: Uploads) -> None:
    job.write(early="x")
    for _ in range(30):
        handle = job.decided()
        uploads.run()
    job.holds(handle, early="x", number="30")


def test_the_log_outgrows_a_base_in_the_background_too(
    job: Job, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MIN_LOG_BYTES", 1_000)
    job.decided()
    job.write(a="x" * 600)
    assert job.decided().base is None
    assert len(uploads.waiting) == 1


def test_a_base_the_storage_does_not_take_is_tried_again(
    job: Job, uploads: Uploads, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write(early="x")
    job.cut_base()

    def refuse(name: str, source: object) -> None:
        raise UnavailableError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(storage.blobs, "put", refuse)
        uploads.run()
    waiting = job.decided()
    if isinstance(job._backend, HeapBackend):  # its base needs no file, the segment that comes with it does
        assert waiting.base is None
    assert len(uploads.waiting) == 1
    uploads.run()
    based = job.decided()
    assert based.base is not None
    job.holds(based, early="x", number="6")


def test_a_cut_that_the_local_disk_does_not_take_is_made_at_the_next_barrier(
    job: Job, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(checkpoint: CheckpointId) -> None:
        raise UnavailableError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(job.store._materialisation, "cut", refuse)
        meanwhile = job.cut_base()
    assert uploads.waiting == []
    job.holds(meanwhile, number="4")
    job.decided()
    uploads.run()
    assert job.decided().base is not None


def test_what_was_uploaded_of_a_base_that_failed_is_named_once(
    open_store: Open, uploads: Uploads, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(open_store, open_store(backend=RocksDBBackend(), uploads=uploads), RocksDBBackend(), storage)
    job.cut_base()
    put, taken = storage.blobs.put, iter(range(2))

    def refuse_the_third(name: str, source: bytes | Path) -> None:
        if next(taken, None) is None:
            raise UnavailableError("no space")
        put(name, source)

    with monkeypatch.context() as patched:
        patched.setattr(storage.blobs, "put", refuse_the_third)
        uploads.run()
    pending = job.pending()
    pending.finish()
    assert len(uploads.files) == 2
    assert set(pending.dropped) == uploads.files
    later = job.pending()
    later.finish()
    assert later.dropped == ()


def test_a_base_that_is_not_needed_any_more_is_named(job: Job, uploads: Uploads, backend: Backend) -> None:
    """A checkpoint that may rely on nothing brings a base of its own."""
    job.cut_base()
    uploads.run()
    left = set(uploads.files)
    assert left
    job.confirmed = None
    pending = job.pending()
    alone = pending.finish()
    assert set(pending.dropped) == left
    assert left.isdisjoint(chunk.name for chunk in alone.chunks if isinstance(chunk, StoredChunk))


def test_a_base_that_only_a_declined_checkpoint_waited_for_is_not_uploaded(
    job: Job, uploads: Uploads
) -> None:
    job.write(early="x")
    job.cut_base()
    while (waiting := job.pending()).base is None:
        waiting.finish()
        job.confirmed = CheckpointId(job.number)
    uploaded = uploads.waiting[-1]
    job.confirmed = None
    handle = job.pending().finish()

    with pytest.raises(
        UnavailableError, match="cancelled before it was written: a later checkpoint has started"
    ):
        waiting.finish()

    assert uploaded.cancelled()
    job.holds(handle, early="x")


def test_nothing_is_uploaded_for_state_that_is_closed(
    job: Job, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.cut_base()
    job.close(monkeypatch)
    uploads.run()
    assert uploads.files == set()


def test_an_upload_in_progress_ends_when_its_state_is_closed(
    open_store: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB writes many files; after the one at hand there is no other."""
    begun, go_on = Event(), Event()
    put, names = storage.blobs.put, []

    def slow(name: str, source: bytes | Path) -> None:
        if isinstance(source, Path):
            names.append(name)
            begun.set()
            assert go_on.wait(60)
        put(name, source)

    with ThreadPoolExecutor(1) as executor:
        job = Job(
            open_store, open_store(backend=RocksDBBackend(), uploads=executor), RocksDBBackend(), storage
        )
        monkeypatch.setattr(storage.blobs, "put", slow)
        job.cut_base()
        assert begun.wait(60)
        job.close(monkeypatch)
        go_on.set()
    assert len(names) == 1


@pytest.fixture
def armed(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    yield lambda point: faults.arm(faults.parse(point), "here", tmp_path / "witnesses")
    faults.disarm()


@pytest.mark.parametrize("point", ["base.before-upload", "base.after-upload"])
def test_a_bug_in_the_upload_is_not_taken_for_a_storage_that_is_down(
    open_store: Open, storage: MemoryStorage, armed: Callable[[str], None], point: str
) -> None:
    with ThreadPoolExecutor(1) as executor:
        job = Job(open_store, open_store(uploads=executor), FilesystemBackend(), storage)
        armed(f"{point}!raise")
        job.cut_base()
        executor.shutdown(wait=True)
        with pytest.raises(faults.InjectedFaultError, match=point):
            job.pending()


@pytest.mark.parametrize("threshold", [0, 150], ids=["files", "some inline"])
@pytest.mark.parametrize("machine", [KeyedModel, CollectionModel], ids=["values", "collections"])
def test_keyed_state_with_bases_in_the_background_equals_a_model(
    machine: type[KeyedModel | CollectionModel],
    threshold: int,
    backend: Backend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "MAX_SEGMENTS", 4)
    monkeypatch.setattr(snapshot, "EARLY", 0.25)

    class Model(machine):  # type: ignore[misc, valid-type] # one class for each of the machines
        inline_threshold = threshold

        def __init__(self) -> None:
            super().__init__(backend, tmp_path)

    examples = max(1, settings().max_examples // 2)
    run_state_machine_as_test(Model, settings=settings(max_examples=examples, stateful_step_count=30))
