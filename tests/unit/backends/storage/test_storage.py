"""What only one kind of storage does; everything they share is in the conformance suite."""

from __future__ import annotations

import pickle
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.backends.spi import InlineChunk, StoredChunk
from tidegate.backends.storage import LocalStorage, MemoryStorage, StorageFiles, open_storage
from tidegate.errors import ConfigError, UnavailableError


@pytest.mark.parametrize(
    ("url", "kind", "expected"),
    [
        pytest.param("/var/lib/app", LocalStorage, "file:///var/lib/app", id="path"),
        pytest.param("file:///var/lib/my%20app", LocalStorage, "file:///var/lib/my%20app", id="file"),
        pytest.param("memory://shared", MemoryStorage, "memory://shared", id="memory"),
    ],
)
def test_a_storage_is_found_by_its_url(url: str, kind: type, expected: str) -> None:
    storage = open_storage(url)
    assert type(storage) is kind
    assert storage.url == expected
    assert open_storage(storage.url).url == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "s4://bucket/path",
            "no storage is called 's4'; known are file, hdfs, memory, s3",
        ),
        (
            "hdfs:///state",
            "invalid HDFS URL; got 'hdfs:///state'; expected hdfs://host:port",
        ),
        ("file://host/path", "invalid file URL; got 'file://host/path'"),
    ],
)
def test_other_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_storage(url)


def test_memory_without_a_name_is_shared_by_pickling_only() -> None:
    storage = MemoryStorage()
    storage.blobs.put("a", b"x")
    assert pickle.loads(pickle.dumps(storage)).blobs.list("") == ["a"]
    assert MemoryStorage().blobs.list("") == []


def test_making_a_local_storage_touches_nothing(tmp_path: Path) -> None:
    assert LocalStorage(tmp_path / "new").blobs.list("") == []
    assert not (tmp_path / "new").exists()


def test_leftovers_of_a_crash_are_not_listed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / "name.tmp-0123").write_bytes(b"torn")
    (tmp_path / "latest@000000000001.tmp-0123").write_bytes(b"torn")
    assert storage.blobs.list("") == []
    assert storage.decisions.read("latest") is None
    assert storage.decisions.swap("latest", None, b"one")


def test_leftovers_of_a_crash_are_removed_where_nobody_writes_any_more(tmp_path: Path) -> None:
    blobs = LocalStorage(tmp_path).blobs
    blobs.put("dead/shared/whole", b"x")
    for run in ("dead", "alive"):
        (tmp_path / run).mkdir(exist_ok=True)
        (tmp_path / run / "file.tmp-0123").write_bytes(b"torn")
    blobs.forget_unfinished("dead/")
    blobs.forget_unfinished("never/")
    assert [path.name for path in tmp_path.rglob("*.tmp-*")] == ["file.tmp-0123"]
    assert (tmp_path / "alive/file.tmp-0123").exists()
    assert blobs.list("dead/") == ["dead/shared/whole"]


def test_a_slow_writer_of_a_version_long_gone_withdraws(tmp_path: Path) -> None:
    decisions = LocalStorage(tmp_path).decisions
    tag = None
    for number in range(30):
        assert decisions.swap("latest", tag, b"%d" % number)
        tag = str(number)
    assert len(list(tmp_path.iterdir())) == 8
    assert not decisions.swap("latest", "3", b"late")
    assert not decisions.create("latest", b"late")
    assert len(list(tmp_path.iterdir())) == 8


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a/../../b", "x.tmp-1"])
def test_names_outside_of_the_root_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="for a checkpoint storage; expected a relative path"):
        LocalStorage(tmp_path).blobs.put(name, b"")


def test_a_decision_named_like_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="invalid decision name 'a/latest@1'"):
        LocalStorage(tmp_path).decisions.read("a/latest@1")


@pytest.mark.parametrize(
    "use",
    [
        lambda storage: storage.blobs.put("a", b""),
        lambda storage: storage.blobs.open("a"),
        lambda storage: storage.decisions.create("a", b""),
        lambda storage: storage.decisions.swap("a", None, b""),
    ],
    ids=["put", "open", "create", "swap"],
)
def test_a_directory_that_cannot_be_used_is_unavailable(
    tmp_path: Path, use: Callable[[LocalStorage], object]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match=r"file.*: (Not a directory|File exists)"):
        use(LocalStorage(tmp_path / "file"))


def test_a_file_that_does_not_fit_is_unavailable_and_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(
            UnavailableError, match=r"cannot read or write .*: File too large; make the directory"
        ):
            LocalStorage(tmp_path).blobs.put("big", b"x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_small_snapshots_go_inline_and_others_to_files(tmp_path: Path) -> None:
    storage = MemoryStorage()
    files = StorageFiles(storage.blobs, "run/shared/", inline_threshold=10)
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    assert files.store(b"012345678") == InlineChunk(b"012345678")
    from_bytes, from_file = files.store(b"0123456789"), files.store(source)
    assert isinstance(from_bytes, StoredChunk)
    assert isinstance(from_file, StoredChunk)
    assert from_bytes.name != from_file.name
    assert (from_bytes.checksum, from_bytes.size) == (from_file.checksum, from_file.size)
    assert storage.blobs.list("run/shared/") == sorted([from_bytes.name, from_file.name])
    source.write_bytes(b"0")
    assert files.store(source) == InlineChunk(b"0")
