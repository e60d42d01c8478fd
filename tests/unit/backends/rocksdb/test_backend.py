from __future__ import annotations

import dataclasses
import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.rocksdb import RocksDBBackend, RocksDBOptions
from tidegate.backends.rocksdb._client import RocksStore
from tidegate.backends.spi import BackendContext, BaseHandle, Chunk, StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import ConfigError, StateCorruptError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

ALL = KeyGroupRange(0, 8)


@pytest.fixture
def files() -> StorageFiles:
    return StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)


def context(root: Path, name: str, files: StorageFiles, **options: object) -> BackendContext:
    directory = root / name
    directory.mkdir()
    return BackendContext(
        directory, files, {f"state.backend.rocksdb.{key}": value for key, value in options.items()}
    )


def data_files(files: tuple[tuple[str, Chunk], ...]) -> dict[str, Chunk]:
    return {name: chunk for name, chunk in files if name.endswith(".sst")}


def test_only_new_data_files_are_uploaded(tmp_path: Path, files: StorageFiles) -> None:
    opened = RocksDBBackend().open(None, ALL, context(tmp_path, "one", files))
    opened.apply([(b"\0\1a", b"x" * 1_000)])
    first = opened.cut(CheckpointId(1)).publish(files, None)
    opened.apply([(b"\0\1b", b"y")])
    second = opened.cut(CheckpointId(2)).publish(files, first)
    opened.close()

    assert len(data_files(first.files)) == 1
    assert len(data_files(second.files)) == 2
    assert data_files(first.files).items() <= data_files(second.files).items()


@pytest.mark.spec("004/AX-027")
def test_checkpoints_refer_to_data_files_of_earlier_ones_until_compaction_replaces_them(
    tmp_path: Path,
) -> None:
    storage = MemoryStorage()
    files = StorageFiles(storage.blobs, "run", inline_threshold=0)
    opened: Any = RocksDBBackend().open(None, ALL, context(tmp_path, "one", files))

    def taken(number: int, confirmed: BaseHandle | None) -> tuple[BaseHandle, dict[str, Chunk], set[str]]:
        before = set(storage.blobs.list(""))
        opened.apply([(b"\0\1%d" % number, b"x"), (b"\0\1last", b"%d" % number)])
        base = opened.cut(CheckpointId(number)).publish(files, confirmed)
        return base, data_files(base.files), set(storage.blobs.list("")) - before

    first, files_of_first, new_in_first = taken(1, None)
    second, files_of_second, new_in_second = taken(2, first)
    names = {chunk.name for chunk in files_of_first.values() if isinstance(chunk, StoredChunk)}
    assert names <= new_in_first
    assert files_of_first.items() < files_of_second.items()
    assert not names & new_in_second

    kept = {chunk.name for _, chunk in second.files if isinstance(chunk, StoredChunk)}
    storage.blobs.delete([name for name in storage.blobs.list("") if name not in kept])
    assert names <= set(storage.blobs.list(""))

    opened._store._db.compact_range(None, None)
    third, files_of_third, _ = taken(3, second)
    opened.close()
    assert not files_of_second.keys() & files_of_third.keys()
    for base, newest in ((second, 2), (third, 3)):
        entries = dict(RocksDBBackend().read(base, context(tmp_path, f"read {newest}", files)))
        written = {b"\0\1%d" % number: b"x" for number in range(1, newest + 1)}
        assert entries == {**written, b"\0\1last": b"%d" % newest}


def test_a_restored_database_uploads_nothing_it_downloaded(tmp_path: Path, files: StorageFiles) -> None:
    opened = RocksDBBackend().open(None, ALL, context(tmp_path, "one", files))
    opened.apply([(b"\0\1a", b"x")])
    first = opened.cut(CheckpointId(1)).publish(files, None)
    opened.close()
    again = RocksDBBackend().open(first, ALL, context(tmp_path, "two", files))
    second = again.cut(CheckpointId(2)).publish(files, first)
    again.close()

    assert data_files(second.files) == data_files(first.files)


def test_a_file_of_the_same_name_from_another_database_is_uploaded(
    tmp_path: Path, files: StorageFiles
) -> None:
    bases: list[BaseHandle] = []
    for name in ("one", "two"):
        opened = RocksDBBackend().open(None, ALL, context(tmp_path, name, files))
        opened.apply([(b"\0\1a", name.encode())])
        bases.append(opened.cut(CheckpointId(1)).publish(files, bases[0] if bases else None))
        opened.close()
    one, two = (data_files(base.files) for base in bases)

    assert one.keys() == two.keys()
    assert set(one.values()).isdisjoint(two.values())


def test_released_cuts_leave_no_links(tmp_path: Path, files: StorageFiles) -> None:
    where = context(tmp_path, "one", files)
    opened = RocksDBBackend().open(None, ALL, where)
    cut = opened.cut(CheckpointId(1))
    assert len(list(where.directory.glob("cut-*"))) == 1
    cut.release()
    assert list(where.directory.glob("cut-*")) == []
    opened.close()


def test_options_come_from_the_context_and_unknown_ones_are_refused(
    tmp_path: Path, files: StorageFiles
) -> None:
    opened = RocksDBBackend().open(
        None, ALL, context(tmp_path, "one", files, **{"writebuffer.size": "64 kb"})
    )
    opened.close()
    with pytest.raises(ConfigError, match=r"unknown option 'state\.backend\.rocksdb\.writebuffer\.siz'"):
        RocksDBBackend().open(None, ALL, context(tmp_path, "two", files, **{"writebuffer.siz": 1}))


def test_files_that_are_no_database_are_corrupt_state(tmp_path: Path, files: StorageFiles) -> None:
    opened = RocksDBBackend().open(None, ALL, context(tmp_path, "one", files))
    opened.apply([(b"\0\1a", b"x")])
    base = opened.cut(CheckpointId(1)).publish(files, None)
    opened.close()
    swapped = tuple(
        (name, files.store(b"0" * 100) if name == "CURRENT" else chunk) for name, chunk in base.files
    )
    assert all(isinstance(chunk, StoredChunk) for _, chunk in swapped)
    with pytest.raises(StateCorruptError, match="cannot be opened"):
        RocksDBBackend().open(
            type(base)(base.backend, base.version, swapped), ALL, context(tmp_path, "two", files)
        )


HOLDER = """
import sys
from pathlib import Path
from tidegate.backends.rocksdb._client import RocksStore
from tidegate.backends.rocksdb.options import RocksDBOptions

store = RocksStore(Path(sys.argv[1]), RocksDBOptions())
print("held", flush=True)
sys.stdin.read()
"""


def test_a_directory_of_another_process_is_refused_with_its_number(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", HOLDER, str(tmp_path / "db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(
                UnavailableError,
                match=rf"is in use by process {holder.pid}; .* stop the other run or set another",
            ):
                RocksStore(tmp_path / "db", RocksDBOptions())
        finally:
            holder.kill()
    RocksStore(tmp_path / "db", RocksDBOptions()).close()


def test_a_directory_opened_twice_is_refused_and_stays_locked(tmp_path: Path) -> None:
    first = RocksStore(tmp_path / "db", RocksDBOptions())
    for _ in range(2):
        with pytest.raises(
            UnavailableError, match=rf"in use by this process, pid {os.getpid()}; expected one run at"
        ):
            RocksStore(tmp_path / "db", RocksDBOptions())
    first.close()


def test_a_local_disk_without_room_for_a_base_is_unavailable(
    tmp_path: Path, files: StorageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = RocksDBBackend().open(None, ALL, context(tmp_path, "one", files))
    opened.apply([(b"\0\1a", b"x")])
    base = opened.cut(CheckpointId(1)).publish(files, None)
    opened.close()

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        UnavailableError, match=r"cannot write .* to the local disk: No space left on device; free space"
    ):
        RocksDBBackend().open(base, ALL, context(tmp_path, "two", files))


def test_a_local_disk_without_room_for_a_database_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, options: object) -> None:
        raise OSError("IO error: No space left on device: While appending to file")

    monkeypatch.setattr("tidegate.backends.rocksdb._client.Rdict", full)
    with pytest.raises(
        UnavailableError, match=r"RocksDB in .* cannot be opened: .*; free space on the local disk"
    ):
        RocksStore(tmp_path / "db", RocksDBOptions())


def test_a_lost_local_disk_is_unavailable(tmp_path: Path, files: StorageFiles) -> None:
    where = context(tmp_path, "one", files)
    opened = RocksDBBackend().open(None, ALL, where)
    (where.directory / "cut-1-0").mkdir()
    with pytest.raises(UnavailableError, match=r"RocksDB in .* failed to write"):
        opened.cut(CheckpointId(1))
    opened.close()


def test_block_cache_and_write_buffers_stay_within_the_memory_given(
    tmp_path: Path, files: StorageFiles
) -> None:
    given = dataclasses.replace(context(tmp_path, "one", files), memory_bytes=16 * 1024 * 1024)
    RocksDBBackend().open(None, ALL, given).close()

    log = (given.directory / "db" / "LOG").read_text()

    assert re.search(r"Options.write_buffer_size: 2097152$", log, re.MULTILINE)
    assert re.search(r"block_cache_options:\s+capacity : 2097152$", log, re.MULTILINE)
