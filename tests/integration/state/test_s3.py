"""Checkpoints in a bucket of a real server: a job that fails, a server that is gone, lies, or loses its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import cloudpickle
import pytest

from tests.waiting import until
from tidegate.backends.spi import CheckpointStorage, Decisions
from tidegate.backends.storage import below, open_storage
from tidegate.backends.storage._client import Bucket, Stored
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import ConfigError, StateCorruptError, UnavailableError
from tidegate.runtime.client import JobClient
from tidegate.state_reader import StateReader
from tidegate.testing.services import S3Service

pytestmark = pytest.mark.service

COUNT = 600


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


@pytest.fixture
def own() -> Iterator[S3Service]:
    with S3Service() as service:
        yield service


def decisions_of(storage: CheckpointStorage) -> Decisions:
    assert storage.decisions is not None
    return storage.decisions


class Totals(KeyedProcessFunction):
    """Sums per key; fails once, in the middle."""

    def __init__(self, once: Path) -> None:
        self.once = once

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value == COUNT // 2 and not self.once.exists():
            self.once.touch()
            raise ConnectionError("try again")
        self.total.update(self.total.value() + value)
        yield [value % 7, self.total.value()]


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_job_that_fails_goes_on_from_its_checkpoint_in_the_bucket(
    tmp_path: Path, s3: S3Service, target: str, request: pytest.FixtureRequest
) -> None:
    cloudpickle.register_pickle_by_value(request.module)
    url = s3.new_bucket()
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.id": "totals",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "state.checkpoints.dir": url,
            "state.backend.fs.memory-threshold": 0,
            "state.checkpoints.num-retained": 2,
            "execution.checkpointing.interval": "50 ms",
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    numbers = env.from_source(GeneratorSource(int, count=COUNT, splits=2, rate_per_second=400.0))
    totals = numbers.key_by(lambda number: number % 7).process(Totals(tmp_path / "once"))
    totals.sink_to(FileSink(tmp_path / "out"))
    result = env.execute("totals")

    assert (result.state, result.restarts) == ("finished", 1)
    lines = [
        json.loads(line)
        for part in (tmp_path / "out").glob("part-*")
        for line in part.read_text().split("\n")
        if line
    ]
    last = {key: max(total for at, total in lines if at == key) for key in range(7)}
    assert len(lines) == COUNT
    assert last == {key: sum(range(key, COUNT, 7)) for key in range(7)}
    blobs = open_storage(url).blobs
    assert blobs.list("totals/") == ["totals/latest"]
    kept = {name.split("/")[1] for name in blobs.list(f"{result.run}/chk-")}
    assert f"chk-{result.checkpoint}" in kept
    assert len(kept) <= 2


def held(place: str) -> int:
    """The totals of all keys in a savepoint."""
    with StateReader(place) as reader:
        known = reader.operators()["totals"]
        return sum(reader.table("totals", "total")["value"].to_pylist()) if known else 0


@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_a_savepoint_in_the_bucket_is_gone_on_from(
    tmp_path: Path, s3: S3Service, mode: str, request: pytest.FixtureRequest
) -> None:
    cloudpickle.register_pickle_by_value(request.module)
    (tmp_path / "once").touch()
    url = s3.new_bucket()

    def start(name: str, **more: str) -> JobClient:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "pipeline.id": name,
                "pipeline.progress": "off",
                "state.checkpoints.dir": url,
                "state.savepoints.dir": below(url, "savepoints"),
                "state.backend.fs.memory-threshold": 0,
                "execution.checkpointing.interval": "50 ms",
                **more,
            }
        )
        numbers = env.from_source(GeneratorSource(int, count=None, rate_per_second=400.0)).uid("numbers")
        totals = numbers.key_by(lambda number: number % 7).process(Totals(tmp_path / "once")).uid("totals")
        totals.sink_to(FileSink(tmp_path / name)).uid("files")
        return env.execute_async(name)

    client = start("first")
    until(lambda: held(client.trigger_savepoint().result(timeout=60)))
    place = client.stop_with_savepoint(False, format_type="native").result(timeout=60)
    assert place.startswith(url.partition("?")[0])
    assert place.endswith(url.partition("?")[2])
    client = start(mode, **{"execution.savepoint.path": place, "execution.savepoint-restore-mode": mode})
    last = client.stop_with_savepoint(False).result(timeout=60)
    assert held(last) >= held(place) > 0


def test_deleted_files_leave_no_object_behind(s3: S3Service) -> None:
    url = s3.new_bucket()
    blobs = open_storage(url).blobs
    names = [f"run/shared/{number}" for number in range(1_005)]
    for name in names[:3] + names[-2:]:
        blobs.put(name, b"x")
    blobs.delete(names)
    bucket = open_storage(url.replace("/state?", "?")).blobs
    assert bucket.list("") == []
    # An empty object that stands for a folder is no file to pyarrow, so the server is asked.
    with urlopen(f"{s3.endpoint}/{urlsplit(url).netloc}?list-type=2", timeout=20) as answer:
        assert b"<Key>" not in answer.read()


@pytest.mark.parametrize(
    ("conditions", "ignored"), [((), "If-Match"), (("If-Match",), "If-None-Match")], ids=["both", "one"]
)
def test_a_server_that_ignores_conditions_is_refused(conditions: tuple[str, ...], ignored: str) -> None:
    with S3Service(conditions=conditions) as careless:
        storage = open_storage(careless.new_bucket())
        with pytest.raises(
            ConfigError, match=rf"ignores {ignored}, so two writers could both succeed; use a server with"
        ):
            decisions_of(storage).create("latest", b"mine")
        assert storage.blobs.list("") == []


def test_a_bucket_that_does_not_exist_is_named(s3: S3Service) -> None:
    storage = open_storage(f"s3://nowhere/x?endpoint={s3.endpoint}")
    with pytest.raises(ConfigError, match="bucket 'nowhere' does not exist; create it"):
        decisions_of(storage).read("latest")
    with pytest.raises(ConfigError, match="bucket 'nowhere' does not exist; create it"):
        decisions_of(storage).create("latest", b"")
    with pytest.raises(UnavailableError, match="cannot read or write s3://nowhere/x/a"):
        storage.blobs.put("a", b"x")
    with pytest.raises(StateCorruptError, match="s3://nowhere/x/a does not exist"):
        storage.blobs.open("a")


def test_missing_credentials_are_named(s3: S3Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match=r"latest needs credentials; got none; set AWS_ACCESS_KEY_ID"):
        decisions_of(open_storage(s3.new_bucket())).read("latest")


def test_a_server_that_is_gone_is_unavailable(own: S3Service) -> None:
    storage = open_storage(own.new_bucket())
    decisions = decisions_of(storage)
    assert decisions.swap("latest", None, b"one")
    own.kill()
    for use in (
        lambda: decisions.swap("latest", "tag", b"two"),
        lambda: decisions.read("latest"),
        lambda: storage.blobs.delete(["a"]),
    ):
        with pytest.raises(UnavailableError, match=r"cannot be read or written: .*; check endpoint, network"):
            use()
    with pytest.raises(UnavailableError, match=r"cannot read or write s3://.*check its address"):
        storage.blobs.put("a", b"x")


@pytest.mark.parametrize("arrives", [True, False], ids=["the write arrived", "the write was lost"])
def test_a_lost_answer_is_found_out(s3: S3Service, monkeypatch: pytest.MonkeyPatch, arrives: bool) -> None:
    decisions = decisions_of(open_storage(s3.new_bucket()))
    assert decisions.create("latest", b"one")
    first = decisions.read("latest")
    assert first is not None
    put = Bucket.put
    lost: list[Any] = []

    def losing(bucket: Bucket, key: str, data: bytes, tag: str | None) -> Stored:
        if lost:
            return put(bucket, key, data, tag)
        lost.append(key)
        if arrives:
            put(bucket, key, data, tag)
        return "unknown"

    monkeypatch.setattr(Bucket, "put", losing)
    assert decisions.swap("latest", first.tag, b"two")
    assert not decisions.swap("latest", first.tag, b"late")
    found = decisions.read("latest")
    assert found is not None
    assert (found.data, len(lost)) == (b"two", 1)


def test_an_outcome_that_nobody_can_tell_is_unavailable(
    s3: S3Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = decisions_of(open_storage(s3.new_bucket()))
    assert decisions.create("latest", b"one")
    put = Bucket.put

    def overtaken(bucket: Bucket, key: str, data: bytes, tag: str | None) -> Stored:
        put(bucket, key, b"0" * 16 + b"a rival's", tag)
        return "unknown"

    monkeypatch.setattr(Bucket, "put", overtaken)
    with pytest.raises(UnavailableError, match="latest: the outcome of a write is unknown; read it"):
        decisions.swap("latest", None if (seen := decisions.read("latest")) is None else seen.tag, b"two")
