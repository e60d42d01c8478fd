from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import KeyedStore, ValueStateDescriptor, log, snapshot
from tidegate.backends.keyed.log import Spilled
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.snapshot import MAX_SEGMENTS, MIN_LOG_BYTES
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Address, BackendContext, Chunk, Cut, InlineChunk, KeyedHandle, StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

Open = Callable[..., KeyedStore]

TEXT = ValueStateDescriptor("text", Types.STRING())


def write(store: KeyedStore, key: str, text: str) -> None:
    store.bind(key)
    store.value_state(TEXT).update(text)


def saved(store: KeyedStore, number: int, confirmed: int | None) -> KeyedHandle:
    relied = CheckpointId(confirmed) if confirmed is not None else None
    return store.snapshot(CheckpointId(number), relied).finish()


def size(chunk: Chunk) -> int:
    assert isinstance(chunk, StoredChunk)
    return chunk.size


def test_nothing_written_adds_nothing(open_store: Open) -> None:
    store = open_store()
    assert saved(store, 1, None).chunks == ()
    write(store, "a", "x")
    second = saved(store, 2, 1)
    assert len(second.segments) == 1
    assert saved(store, 3, 2) == second


def test_each_epoch_adds_only_what_changed(open_store: Open) -> None:
    store = open_store()
    for number in range(500):
        write(store, f"k{number}", "x" * 100)
    first = saved(store, 1, None)
    write(store, "k1", "y")
    second = saved(store, 2, 1)
    assert second.segments[:-1] == first.segments
    assert size(second.segments[-1]) < 200 < size(first.segments[0])


def test_small_segments_become_one_until_they_fill_a_file(storage: MemoryStorage, tmp_path: Path) -> None:
    files = StorageFiles(storage.blobs, "run", inline_threshold=1_000)
    place = BackendContext(tmp_path, files, {})
    store = KeyedStore(FilesystemBackend(), KeyGroupRange(0, 8), 8, (), place)
    kinds = []
    for number in range(1, 21):
        write(store, f"k{number}", "x" * 200)
        write(store, "always", str(number))
        handle = saved(store, number, number - 1 or None)
        kinds.append(["inline" if isinstance(chunk, InlineChunk) else "file" for chunk in handle.segments])
    store.close()
    assert kinds[:5] == [["inline"]] * 4 + [["file"]]
    assert kinds[-1] == ["file"] * 4
    (tmp_path / "again").mkdir()
    again = KeyedStore(
        FilesystemBackend(), KeyGroupRange(0, 8), 8, (handle,), BackendContext(tmp_path / "again", files, {})
    )
    for key, text in {"always": "20", "k1": "x" * 200, "k20": "x" * 200}.items():
        again.bind(key)
        assert again.value_state(TEXT).value() == text
    again.close()


def test_an_undecided_checkpoint_is_not_built_on(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store()
    write(store, "a", "1")
    first = saved(store, 1, None)
    write(store, "b", "2")
    declined = saved(store, 2, 1)
    write(store, "c", "3")
    third = saved(store, 3, 1)
    assert third.segments[0] == first.segments[0]
    assert declined.segments[1] not in third.segments
    storage.blobs.delete([chunk.name for chunk in declined.segments[1:] if isinstance(chunk, StoredChunk)])
    again = open_store(third)
    for key, text in zip("abc", "123", strict=True):
        again.bind(key)
        assert again.value_state(TEXT).value() == text


def test_after_a_long_outage_one_base_is_cut_and_segments_follow(
    reopen: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MIN_LOG_BYTES", 1_000)
    store = reopen()
    write(store, "first", "x")
    first = saved(store, 1, None)
    for number in range(2, 50):
        write(store, f"k{number}", "x" * 100)
        store.snapshot(CheckpointId(number), CheckpointId(1)).discard()
        assert store.unconfirmed_bytes <= 2 * 1_000
    based = saved(store, 50, 1)
    assert based.base is not None
    assert based.base != first.base
    write(store, "last", "x")
    after = saved(store, 51, 50)
    assert (after.base, len(after.segments)) == (based.base, 2)
    again = reopen(after)
    for key in ("first", *(f"k{number}" for number in range(2, 50)), "last"):
        again.bind(key)
        assert again.value_state(TEXT).value() in ("x", "x" * 100)


def test_a_declined_checkpoint_keeps_none_of_what_it_would_have_written(
    open_store: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, source: object) -> None:
        raise UnavailableError("no space")

    store = open_store()
    write(store, "a", "x" * 1_000)
    pending = store.snapshot(CheckpointId(1), None)
    with monkeypatch.context() as patched:
        patched.setattr(storage.blobs, "put", refuse)
        with pytest.raises(UnavailableError, match="no space"):
            pending.finish()
    assert pending._changes.size == 0
    assert pending.over


def test_a_base_is_cut_at_the_limit_of_segments(open_store: Open) -> None:
    store = open_store()
    handle, confirmed = KeyedHandle(store._key_groups, None, ()), None
    for number in range(1, MAX_SEGMENTS + 1):
        write(store, "a", str(number))
        handle = saved(store, number, confirmed)
        confirmed = number
    assert handle.base is None
    assert len(handle.segments) == MAX_SEGMENTS
    write(store, "a", "last")
    based = saved(store, MAX_SEGMENTS + 1, confirmed)
    assert based.base is not None
    assert len(based.segments) == 1
    again = open_store(based)
    again.bind("a")
    assert again.value_state(TEXT).value() == "last"


def test_a_base_is_cut_when_the_log_outgrows_it(open_store: Open) -> None:
    store = open_store()
    write(store, "a", "x" * (MIN_LOG_BYTES // 2))
    assert saved(store, 1, None).base is None
    write(store, "b", "x" * (MIN_LOG_BYTES // 2 + 1))
    based = saved(store, 2, 1)
    assert based.base is not None
    write(store, "c", "small")
    assert saved(store, 3, 2).base == based.base


def test_a_log_too_large_to_keep_is_replaced_by_a_base(open_store: Open) -> None:
    store = open_store(cache_entries=1)
    for number in range(6):
        write(store, f"k{number}", "x" * (MIN_LOG_BYTES // 4))
        store.end_batch()
    assert store._history._log._open.dropped
    based = saved(store, 1, None)
    assert based.base is not None
    write(store, "small", "x")
    unconfirmed = saved(store, 2, None)
    assert unconfirmed.base is not None
    again = open_store(unconfirmed)
    again.bind("k3")
    assert again.value_state(TEXT).value() == "x" * (MIN_LOG_BYTES // 4)


def test_what_is_too_much_for_memory_is_in_segments_of_its_own(
    open_store: Open, storage: MemoryStorage
) -> None:
    files = StorageFiles(storage.blobs, "run", inline_threshold=0)
    store = open_store(backend=RocksDBBackend(), memory_bytes=1_000_000)
    for number in range(3_000):
        write(store, f"k{number % 1_000}", f"{number:0100d}")
        store.end_batch()
    first = saved(store, 1, None)
    assert first.base is None
    assert len(first.segments) > 3
    assert [bool(read_segment(files, chunk).table) for chunk in first.segments[-2:]] == [False, True]
    for number in range(3_000, 3_500):
        write(store, f"k{number % 1_000}", f"{number:0100d}")
        store.end_batch()
    declined = saved(store, 2, 1)
    write(store, "k0", "newest")
    third = saved(store, 3, 1)
    storage.blobs.delete(
        [
            chunk.name
            for chunk in set(declined.segments) - set(first.segments)
            if isinstance(chunk, StoredChunk)
        ]
    )
    again = open_store(third, backend=RocksDBBackend(), memory_bytes=1_000_000)
    for key, text in {"k0": "newest", "k1": f"{3_001:0100d}", "k999": f"{2_999:0100d}"}.items():
        again.bind(key)
        assert again.value_state(TEXT).value() == text


def test_as_many_segments_as_may_be_are_spilled_at_most(open_store: Open) -> None:
    store = open_store(backend=RocksDBBackend(), memory_bytes=100_000)
    write(store, "k", "x")
    saved(store, 1, None)
    for number in range(3_000):
        write(store, f"k{number}", f"{number:0100d}")
        store.end_batch()
    based = saved(store, 2, 1)
    assert based.base is not None
    assert len(based.segments) == 1


def test_what_is_decided_makes_room_in_memory_before_the_next_epoch_is_written(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled: list[Path] = []

    def noted(path: Path, entries: Mapping[Address, bytes | None]) -> Spilled:
        spilled.append(path)
        return Spilled(path, entries)

    monkeypatch.setattr(log, "Spilled", noted)
    store = open_store(backend=RocksDBBackend(), memory_bytes=8_000_000)
    limit = store._history._log._memory_bytes
    assert limit is not None
    rows = limit * 6 // 10 // 300
    """A bit more than half of what the log may hold in memory."""

    def epoch(number: int, confirmed: int | None) -> None:
        for key in range(rows):
            write(store, f"k{key}", f"{number:0100d}")
        saved(store, number, confirmed)

    for number in (1, 2, 3):
        epoch(number, number - 1 or None)
    assert spilled == []
    epoch(4, 2)
    assert spilled, "what is not decided stays in the log, and two epochs are too much"


def test_a_restored_handle_is_built_on_only_when_it_is_confirmed(open_store: Open) -> None:
    store = open_store()
    write(store, "a", "1")
    first = saved(store, 1, None)
    relying, alone = open_store(first), open_store(first)
    write(relying, "b", "2")
    write(alone, "b", "2")
    assert saved(relying, 2, 1).segments[:1] == first.segments
    full = saved(alone, 2, None)
    assert full.base is not None
    assert first.segments[0] not in full.chunks


def test_a_snapshot_is_written_while_records_go_on(open_store: Open) -> None:
    store = open_store()
    write(store, "a", "then")
    pending = store.snapshot(CheckpointId(1), None)
    write(store, "a", "now")
    store.bind("b")
    again = open_store(pending.finish())
    again.bind("a")
    assert again.value_state(TEXT).value() == "then"
    store.bind("a")
    assert store.value_state(TEXT).value() == "now"


def test_a_discarded_snapshot_leaves_the_next_one_whole(open_store: Open) -> None:
    store = open_store()
    write(store, "a", "1")
    saved(store, 1, None)
    write(store, "a", "2")
    store.snapshot(CheckpointId(2), None).discard()
    again = open_store(saved(store, 3, 1))
    again.bind("a")
    assert again.value_state(TEXT).value() == "2"


def test_a_cut_that_the_local_disk_does_not_take_declines_only_its_checkpoint(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    large = "x" * (MIN_LOG_BYTES + 1)
    write(store, "a", large)

    def refuse(checkpoint: CheckpointId) -> Cut:
        raise UnavailableError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(store._materialisation, "cut", refuse)
        with pytest.raises(UnavailableError, match="no space"):
            saved(store, 1, None)
    write(store, "b", "2")
    again = open_store(saved(store, 2, None))
    for key, text in (("a", large), ("b", "2")):
        again.bind(key)
        assert again.value_state(TEXT).value() == text


def test_a_failed_upload_declines_only_its_checkpoint(
    open_store: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    write(store, "a", "1")

    def refuse(name: str, source: object) -> None:
        raise UnavailableError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(storage.blobs, "put", refuse)
        with pytest.raises(UnavailableError, match="no space"):
            saved(store, 1, None)
    again = open_store(saved(store, 2, None))
    again.bind("a")
    assert again.value_state(TEXT).value() == "1"
