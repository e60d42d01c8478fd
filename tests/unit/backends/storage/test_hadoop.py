"""What the storage in HDFS does around the file system, with a local one in its place."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pyarrow.fs
import pytest

from tidegate.backends.storage import open_storage
from tidegate.backends.storage._arrow import ArrowBlobs, RenamedBlobs
from tidegate.backends.storage.hadoop import HadoopStorage
from tidegate.errors import ConfigError, UnavailableError


@pytest.fixture
def blobs(tmp_path: Path) -> RenamedBlobs:
    return RenamedBlobs(pyarrow.fs.LocalFileSystem(), str(tmp_path), "hdfs://host/state")


def test_a_file_gets_its_name_when_it_is_complete_and_can_be_written_again(
    blobs: RenamedBlobs, tmp_path: Path
) -> None:
    for content in (b"one", b"two"):
        blobs.put("run/shared/file", content)
        with blobs.open("run/shared/file") as file:
            assert file.read() == content
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["file"]


def test_what_a_crash_left_half_written_is_not_listed(blobs: RenamedBlobs, tmp_path: Path) -> None:
    blobs.put("run/shared/file", b"one")
    (tmp_path / "run/shared/other.tmp-1").write_bytes(b"ha")

    assert blobs.list("run/") == ["run/shared/file"]
    blobs.delete(["run/shared/file", "run/shared/file"])
    assert blobs.list("run/") == []


def test_a_file_that_cannot_be_written_is_unavailable(blobs: RenamedBlobs, tmp_path: Path) -> None:
    (tmp_path / "run").touch()

    with pytest.raises(UnavailableError, match=r"cannot read or write hdfs://host/state/run/shared/file"):
        blobs.put("run/shared/file", b"one")


def test_a_file_that_is_there_and_is_not_given_is_unavailable() -> None:
    class Given(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("the server hangs up")

    class Server:
        def open_input_file(self, path: str) -> Given:
            return Given()

    blobs = ArrowBlobs(cast("Any", Server()), "bucket", "s3://bucket")

    with pytest.raises(
        UnavailableError, match=r"cannot read or write s3://bucket/run/file: the server hangs up"
    ):
        blobs.open("run/file")


def test_hdfs_is_found_by_its_url_and_decides_nothing() -> None:
    storage = open_storage("hdfs://host:8020/state")

    assert isinstance(storage, HadoopStorage)
    assert storage.decisions is None


def test_a_machine_without_hadoop_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Without:
        @staticmethod
        def from_uri(url: str) -> None:
            raise OSError("Unable to load libjvm\ndlopen(...) failed")

    monkeypatch.setattr("pyarrow.fs.FileSystem", Without)
    with pytest.raises(
        ConfigError,
        match=r"host:8021/state cannot be opened: Unable to load libjvm; expected .*; set JAVA_HOME",
    ):
        HadoopStorage("hdfs://host:8021/state").blobs  # noqa: B018
