"""Files in a bucket of a real server: seen once, whatever dies, is repeated, or stands in the way."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.backends.storage import open_storage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import _client, pending_files
from tidegate.connectors.base._client import Objects
from tidegate.connectors.files import (
    Compaction,
    FileSink,
    FileSinkOptions,
    HivePartitions,
    ParquetRows,
    PartitionCommit,
    RollingPolicy,
    TextLines,
)
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.testing.claims import ClaimingSinkSuite
from tidegate.testing.services import S3Service
from tidegate.testing.sink import SinkRig, SinkTarget
from tidegate.twophase.spi import CommitAnswer, Retry, WriterContext

pytestmark = pytest.mark.service


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


@pytest.fixture
def url(s3: S3Service) -> str:
    return s3.new_bucket()


class Reader:
    """What others see in a bucket, read by pyarrow and not by the connector."""

    def __init__(self, url: str) -> None:
        self._blobs = open_storage(url).blobs

    def names(self, *, hidden: bool = False) -> list[str]:
        return sorted(name for name in self._blobs.list("") if name.startswith(".tidegate/") is hidden)

    def read(self, name: str) -> bytes:
        with self._blobs.open(name) as file:
            data: bytes = file.read()
            return data

    def lines(self) -> list[str]:
        return [line for name in self.names() for line in self.read(name).decode().splitlines()]


class TestBucketSink(ClaimingSinkSuite):
    """Objects: exactly once by a copy within the server that is recognised by size and checksum."""

    @pytest.fixture
    def target(self, url: str) -> SinkTarget:
        reader = Reader(url)
        return SinkTarget(FileSink(url, TextLines()), reader.lines)


@pytest.fixture
def rig(url: str) -> SinkRig:
    return SinkRig(SinkTarget(FileSink(url, TextLines()), Reader(url).lines))


def test_a_pending_object_is_hidden_and_goes_with_its_commit(rig: SinkRig, url: str) -> None:
    work = rig.epoch(["a", "b"], 1)
    reader = Reader(url)
    assert (reader.names(), reader.names(hidden=True)) == (
        [],
        [".tidegate/orders.sink/1f.0.1-0-open-1.inprogress"],
    )

    assert rig.commit(work) == [CommitAnswer.COMMITTED]
    assert (reader.names(), reader.names(hidden=True)) == (["part-1f.0-e8891171-0-1.txt"], [])


def test_a_server_that_refuses_conditions_has_claims_as_well(
    rig: SinkRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Objects, "upload_first", lambda objects, key, content: None)
    first, second = replace(rig, home="file:///first"), replace(rig, home="file:///second")

    first.abort_except()
    with pytest.raises(
        ConfigError, match=r"^output 's3://.*/': the hidden files of .* in file:///first; got checkpoints in"
    ):
        second.abort_except()


def test_a_repeat_finds_the_object_equal_and_does_nothing(
    rig: SinkRig, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = rig.epoch(["a"], 1)
    rig.commit(work)
    copied: list[str] = []
    real = Objects.copy

    def noting(objects: Objects, source: str, key: str) -> bool:
        copied.append(key)
        return real(objects, source, key)

    monkeypatch.setattr(Objects, "copy", noting)

    assert rig.commit(work) == [CommitAnswer.ALREADY_COMMITTED]
    assert copied == []


@pytest.mark.parametrize("content", [b"A\n", b"longer than it was"], ids=["same size", "other size"])
def test_another_object_under_the_final_name_is_unknown_and_never_overwritten(
    rig: SinkRig, url: str, content: bytes
) -> None:
    work = rig.epoch(["a"], 1)
    name = pending_files(work)[0].final
    open_storage(url).blobs.put(name, content)

    assert rig.commit(work) == [CommitAnswer.UNKNOWN]
    assert Reader(url).read(name) == content


def test_an_object_that_is_gone_on_both_sides_is_unknown(rig: SinkRig, url: str) -> None:
    work = rig.epoch(["a"], 1)
    rig.abort_except()

    assert rig.commit(work) == [CommitAnswer.UNKNOWN]


def context() -> WriterContext:
    who = Subtask("sink", 0)
    return WriterContext(
        PipelineId("orders"), OperatorUid("sink"), who, 1, LineageId("1f"), Branch(0), "1", (), SYSTEM_CLOCK
    )


def test_a_policy_that_spans_checkpoints_ends_files_with_each_of_them(url: str) -> None:
    options = FileSinkOptions(rolling=RollingPolicy.default_rolling_policy())
    writer = FileSink(url, TextLines(), options).open_writer(context())
    writer.write(Batch(["a"]))

    assert writer.prepare(CheckpointId(1)) is not None
    assert writer.snapshot(CheckpointId(1)) is None
    writer.close()


def test_a_bucket_that_does_not_exist_is_named(url: str) -> None:
    parts = urlsplit(url)
    with pytest.raises(ConfigError, match="bucket 'nowhere' does not exist; create it or name another one"):
        FileSink(url.replace(parts.netloc, "nowhere", 1)).open_writer(context())


def test_a_server_that_is_gone_is_unavailable_and_commits_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with S3Service() as service:
        url = service.new_bucket()
        rig = SinkRig(SinkTarget(FileSink(url, TextLines()), list))
        work = rig.epoch(["a"], 1)
        writer = rig.writer(subtask=1)
        writer.write(Batch(["b"]))

    for _ in range(2):
        with pytest.raises(
            UnavailableError, match=r"bucket '.*' cannot be read or written: .*; check endpoint, network"
        ):
            writer.prepare(CheckpointId(1))
    writer.close()
    (answer,) = rig.commit(work)
    assert isinstance(answer, Retry)
    assert "cannot be read or written" in answer.reason


def test_a_job_writes_partitions_of_merged_parquet_files_and_says_that_they_are_whole(
    url: str, tmp_path: Path
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "30 ms",
        }
    )
    numbers: GeneratorSource[dict[str, Any]] = GeneratorSource(
        lambda number: {"id": number, "half": number % 2}, count=300, splits=2, rate_per_second=1_000.0
    )
    options = FileSinkOptions(
        buckets=HivePartitions("half"),
        compaction=Compaction(checkpoints=2),
        partition_commit=PartitionCommit("partition-time", time_extractor=lambda fields: int(fields["half"])),
    )
    sink = FileSink(url, ParquetRows(pa.schema({"id": pa.int64()})), options)
    env.from_source(numbers).sink_to(sink)
    env.execute("parquet")

    reader = Reader(url)
    rows: dict[str, list[int]] = {}
    marks = ["half=0/_SUCCESS", "half=1/_SUCCESS"]
    assert [name for name in reader.names() if name.endswith("_SUCCESS")] == marks
    for name in set(reader.names()) - {*marks}:
        rows.setdefault(name.partition("/")[0], []).extend(
            pq.read_table(pa.BufferReader(reader.read(name))).to_pydict()["id"]
        )
    assert {name: sorted(ids) for name, ids in rows.items()} == {
        "half=0": list(range(0, 300, 2)),
        "half=1": list(range(1, 300, 2)),
    }
    claim, note = reader.names(hidden=True)
    assert claim.endswith("/claim")
    assert note.endswith("/partitions.json"), (
        "what waits for its commit is written down beside the hidden objects"
    )
    assert msgspec.json.decode(reader.read(note))["pending"] == {}


def test_an_object_that_is_larger_than_one_request_may_be_is_uploaded_and_copied_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    least = 5 * 2**20  # of every part but the last
    monkeypatch.setattr(_client, "_MOST_AT_ONCE", least + 1)
    monkeypatch.setattr(_client, "_PART", least)
    content = bytes(range(256)) * (2 * least // 256 + 3)
    with S3Service(most_bytes=least + 1) as server:
        objects = Objects(urlsplit(server.new_bucket()).netloc, server.endpoint, None)
        objects.upload("pending", BytesIO(content), "sum")
        copied = [objects.copy("pending", "final"), objects.copy("gone", "other")]

        assert copied == [True, False]
        assert objects.look("final") == objects.look("pending") == (len(content), "sum")
        assert objects.look("other") is None
        with objects.download("final") as file:
            assert file.read() == content


def test_parts_of_an_upload_that_fails_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_client, "_MOST_AT_ONCE", 5)
    with S3Service(most_bytes=5) as server:
        objects = Objects(urlsplit(server.new_bucket()).netloc, server.endpoint, None)
        with pytest.raises(UnavailableError, match="EntityTooLarge"):
            objects.upload("pending", BytesIO(b"more than five"), "sum")

        assert objects._call("list_multipart_uploads").get("Uploads", []) == []
        assert objects.look("pending") is None
