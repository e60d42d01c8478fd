"""Partitions are committed when nothing more is expected of them, once for each checkpoint that finds it so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.base.file_writer import FileWriter
from tidegate.connectors.files import (
    Compaction,
    FileSink,
    FileSinkOptions,
    HivePartitions,
    JsonLines,
    Partition,
    PartitionCommit,
    RollingPolicy,
    SuccessFile,
    TimeBuckets,
)
from tidegate.elements import MAX_WATERMARK, Batch
from tidegate.errors import ConfigError, StateFormatError, UnavailableError, UserCodeError
from tidegate.ids import CheckpointId, Subtask
from tidegate.twophase.spi import Committable, CommitterContext, WriterContext

HOUR, MINUTE = 3_600_000, 60_000
BY_TIME = PartitionCommit("partition-time", delay_ms=HOUR, timestamp_pattern="$day $hour:00:00")


@dataclass(frozen=True)
class Noted:
    """Notes each commit in a file."""

    path: str

    def commit(self, partition: Partition) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{Path(partition.path).name} {dict(partition.fields)}\n")


@dataclass(frozen=True)
class Failing:
    error: Exception

    def commit(self, partition: Partition) -> None:
        raise self.error


class Table:
    """Two writers and the global committer of a partitioned sink."""

    def __init__(self, directory: Path, context: WriterContext, committer: CommitterContext) -> None:
        self.directory = directory
        self.context = replace(context, parallelism=2)
        self.committer_context = committer
        self.how = BY_TIME
        self.options = FileSinkOptions(buckets=HivePartitions("day", "hour"))
        self.checkpoint = 0
        self.writers: list[FileWriter] = []
        self.work: list[Committable] = []

    @property
    def sink(self) -> FileSink:
        how = replace(
            self.how,
            policies=(SuccessFile(), Noted(str(self.directory.parent / "noted")), *self.how.policies[1:]),
        )
        return FileSink(self.directory, JsonLines(), replace(self.options, partition_commit=how))

    def open(self) -> None:
        self.writers = [
            self.sink.open_writer(replace(self.context, subtask=Subtask("sink", number)))
            for number in range(2)
        ]

    def write(self, number: int, day: str, hour: str) -> None:
        if not self.writers:
            self.open()
        self.writers[number].write(Batch([{"id": 1, "day": day, "hour": hour}]))

    def at(self, *watermarks: int | None) -> None:
        """A checkpoint at which writers know these watermarks."""
        self.settle(self.prepare(*watermarks))

    def prepare(self, *watermarks: int | None) -> list[Committable]:
        """What the writers have for the next checkpoint."""
        self.checkpoint += 1
        checkpoint = CheckpointId(self.checkpoint)
        work = []
        for number, (writer, watermark) in enumerate(zip(self.writers, watermarks, strict=True)):
            if watermark is not None:
                writer.watermark(watermark)
            prepared = writer.prepare(checkpoint)
            assert prepared is not None
            work.append(Committable(self.context.uid, number, checkpoint, *prepared))
        return work

    def settle(self, work: list[Committable]) -> None:
        self.work = work
        self.sink.open_committer(self.committer_context).commit(work)
        self.finish()

    def finish(self) -> None:
        checkpoint = self.work[0].checkpoint
        self.sink.open_global_committer(self.committer_context).commit(checkpoint, self.work)

    def marked(self) -> list[str]:
        return sorted(
            str(path.parent.relative_to(self.directory)) for path in self.directory.rglob("_SUCCESS")
        )

    def noted(self) -> list[str]:
        path = self.directory.parent / "noted"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def table(
    tmp_path: Path, writer_context: Callable[..., WriterContext], committer_context: CommitterContext
) -> Any:
    table = Table(tmp_path / "out", writer_context(), committer_context)
    yield table
    for writer in table.writers:
        writer.close()


@pytest.mark.spec("004/HIV-017", "004/HIV-024")
def test_a_partition_is_committed_once_all_writers_are_past_its_time_and_the_delay(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.write(1, "1970-01-01", "02")
    table.at(2 * HOUR, 5 * HOUR)
    assert table.marked() == []
    table.at(2 * HOUR + 1, None)
    assert table.marked() == ["day=1970-01-01/hour=01"]
    table.at(3 * HOUR + 1, None)

    assert table.marked() == ["day=1970-01-01/hour=01", "day=1970-01-01/hour=02"]
    assert table.noted() == [f"hour=0{hour} {{'day': '1970-01-01', 'hour': '0{hour}'}}" for hour in (1, 2)]


@pytest.mark.spec("004/HIV-023")
def test_a_checkpoint_is_judged_by_its_own_watermark_however_far_time_is_by_then(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    early, late = table.prepare(HOUR, HOUR), table.prepare(9 * HOUR, 9 * HOUR)

    table.settle(early)
    assert table.marked() == []
    table.settle(late)
    assert table.marked() == ["day=1970-01-01/hour=01"]


@pytest.mark.spec("004/HIV-007")
def test_files_end_by_their_policy_and_their_partition_is_committed_when_all_are_there(table: Table) -> None:
    table.options = replace(table.options, rolling=RollingPolicy(part_size=1))
    for _ in range(3):
        table.write(0, "1970-01-01", "01")
    folder = table.directory / "day=1970-01-01" / "hour=01"
    assert not folder.exists()

    table.at(2 * HOUR, 2 * HOUR)
    assert len(list(folder.glob("part-*"))) == 3
    assert table.marked() == []
    table.at(2 * HOUR + 1, 2 * HOUR + 1)
    assert table.marked() == ["day=1970-01-01/hour=01"]


def test_a_writer_that_knows_no_time_holds_partitions_back(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(9 * HOUR, None)
    assert table.marked() == []
    table.at(None, 9 * HOUR)

    assert table.marked() == ["day=1970-01-01/hour=01"]


@pytest.mark.spec("004/HIV-024")
def test_at_the_end_of_all_input_every_partition_is_committed(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(MAX_WATERMARK, MAX_WATERMARK)

    assert table.marked() == ["day=1970-01-01/hour=01"]


def test_late_records_commit_their_partition_again(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(9 * HOUR, 9 * HOUR)
    table.at(None, None)
    table.write(1, "1970-01-01", "01")
    table.at(None, None)

    assert len(table.noted()) == 2


@pytest.mark.spec("004/HIV-026")
def test_a_checkpoint_that_is_finished_again_commits_the_same_again_and_no_more(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(9 * HOUR, 9 * HOUR)
    (table.directory / "day=1970-01-01" / "hour=01" / "_SUCCESS").unlink()
    table.finish()

    assert table.marked() == ["day=1970-01-01/hour=01"]
    assert len(table.noted()) == 2
    assert set(table.noted()) == {table.noted()[0]}


@pytest.mark.spec("004/HIV-022")
def test_an_older_checkpoint_that_is_finished_again_changes_nothing(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(HOUR, HOUR)
    older = table.work
    table.at(9 * HOUR, 9 * HOUR)
    table.sink.open_global_committer(table.committer_context).commit(CheckpointId(1), older)

    assert len(table.noted()) == 1


@pytest.mark.spec("004/HIV-021")
def test_partitions_that_wait_outlive_the_process(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(HOUR, HOUR)
    for writer in table.writers:
        writer.close()
    table.context = replace(table.context, attempt="2")
    table.open()
    table.at(9 * HOUR, 9 * HOUR)

    assert table.marked() == ["day=1970-01-01/hour=01"]


def test_a_partition_waits_for_files_that_are_still_to_come(table: Table) -> None:
    table.options = replace(table.options, compaction=Compaction(checkpoints=2))
    table.write(0, "1970-01-01", "01")
    table.write(1, "1970-01-01", "01")
    table.at(9 * HOUR, 9 * HOUR)
    assert table.marked() == []
    table.at(None, None)

    assert table.marked() == ["day=1970-01-01/hour=01"]
    assert len(list((table.directory / "day=1970-01-01" / "hour=01").glob("part-*"))) == 2


@pytest.mark.spec("004/HIV-018")
def test_the_clock_commits_a_partition_a_while_after_its_first_file(table: Table, clock: ManualClock) -> None:
    table.how = PartitionCommit(delay_ms=100)
    table.write(0, "any", "any")
    table.at(None, None)
    clock.advance(100)
    table.at(None, None)
    assert table.marked() == []
    clock.advance(1)
    table.at(None, None)

    assert table.marked() == ["day=any/hour=any"]


def test_a_partition_is_committed_in_time_though_the_wall_clock_was_set_back(
    table: Table, clock: ManualClock
) -> None:
    table.how = PartitionCommit(delay_ms=100)
    table.write(0, "any", "any")
    table.at(None, None)
    clock.set(clock.now_ms() - 3_600_000)
    table.at(None, None)
    clock.advance(101)
    table.at(None, None)

    assert table.marked() == ["day=any/hour=any"]


@pytest.mark.spec("004/HIV-018")
def test_without_a_delay_the_clock_commits_a_partition_with_its_files(table: Table) -> None:
    table.how = PartitionCommit()
    table.write(0, "any", "any")
    table.at(None, None)

    assert table.marked() == ["day=any/hour=any"]


@pytest.mark.spec("004/HIV-024", "004/HIV-025")
@pytest.mark.parametrize(
    ("how", "time"),
    [
        (BY_TIME, 7 * HOUR),
        (PartitionCommit(timestamp_pattern="${day}T$hour:30"), 7 * HOUR + HOUR // 2),
        (PartitionCommit(), 0),
        (PartitionCommit(zone="Europe/Vienna"), -HOUR),
        (PartitionCommit(time_extractor=lambda fields: int(fields["hour"])), 7),
    ],
    ids=["pattern", "braces", "first field", "zone", "function"],
)
def test_a_partition_tells_its_time(how: PartitionCommit, time: int) -> None:
    fields: Mapping[str, str] = {"day": "1970-01-01", "hour": "07"}

    assert how.time_of(fields) == time


@pytest.mark.spec("004/HIV-024", "004/HIV-025")
def test_a_pattern_puts_the_time_of_a_partition_together() -> None:
    how = PartitionCommit(
        "partition-time", 5 * MINUTE, timestamp_pattern="${year}-${month}-${day} ${hour}:00:00"
    )
    fields = {"year": "1970", "month": "01", "day": "02", "hour": "07"}
    time = 31 * HOUR

    assert how.time_of(fields) == time
    assert [
        how.is_due(fields, created_ms=0, now_ms=0, watermark=time + 5 * MINUTE + past) for past in (0, 1)
    ] == [False, True]


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        (PartitionCommit(timestamp_pattern="$dt"), {"day": "1970-01-01"}),
        (PartitionCommit(), {"day": "Monday"}),
        (PartitionCommit(), {"day": "__HIVE_DEFAULT_PARTITION__"}),
    ],
    ids=["other field", "no time", "none"],
)
def test_a_partition_without_a_time_is_named(how: PartitionCommit, fields: dict[str, str]) -> None:
    with pytest.raises(
        ConfigError, match=r"partition 'day=.*' has no time of pattern .*; set timestamp_pattern"
    ):
        how.time_of(fields)


def test_a_system_that_does_not_answer_is_asked_again(table: Table) -> None:
    table.how = PartitionCommit(policies=(SuccessFile(), Failing(ConnectionError("down"))))
    table.write(0, "a", "b")
    with pytest.raises(
        UnavailableError, match=r"sink 'sink': partitions of .* cannot be committed now \(down\); retrying"
    ):
        table.at(None, None)
    table.how = PartitionCommit()
    table.finish()

    assert len(table.noted()) == 2


def test_a_policy_that_fails_is_named(table: Table) -> None:
    table.how = PartitionCommit(policies=(SuccessFile(), Failing(KeyError("x"))))
    table.write(0, "a", "b")

    with pytest.raises(
        UserCodeError, match=r"sink 'sink': Failing failed for partition 'day=a/hour=b': KeyError: 'x'"
    ):
        table.at(None, None)


def test_what_another_version_wrote_down_is_refused(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(HOUR, HOUR)
    path = table.directory / ".tidegate" / "orders.sink" / "partitions.json"
    path.write_bytes(path.read_bytes().replace(b'"v":1', b'"v":2'))

    with pytest.raises(
        StateFormatError, match=r"partitions\.json cannot be read .*; expected version 1; run the version"
    ):
        table.at(None, None)


def test_a_checkpoint_of_a_sink_without_partitions_leaves_nothing(table: Table) -> None:
    table.sink.open_global_committer(table.committer_context).commit(CheckpointId(1), [])

    assert not table.directory.exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: PartitionCommit(cast("Any", "event")),
            "trigger is 'event'; expected 'process-time' or 'partition-time'",
        ),
        (lambda: PartitionCommit(delay_ms=-1), "partition commit delay_ms is -1; expected 0 or more"),
        (
            lambda: PartitionCommit(zone="Mars"),
            "partition commit: time zone 'Mars' is unknown; expected, for example, 'UTC'",
        ),
        (
            lambda: FileSinkOptions(buckets=TimeBuckets(), partition_commit=PartitionCommit()),
            r"partition_commit needs partitions; got buckets TimeBuckets\(.*\); expected HivePartitions",
        ),
    ],
    ids=["trigger", "delay", "zone", "no partitions"],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.spec("004/HIV-021")
def test_what_is_written_down_has_a_version(table: Table) -> None:
    table.write(0, "1970-01-01", "01")
    table.at(HOUR, HOUR)
    path = table.directory / ".tidegate" / "orders.sink" / "partitions.json"

    assert msgspec.json.decode(path.read_bytes()) == {
        "v": 1,
        "history": "1f.0",
        "checkpoint": 1,
        "pending": {"day=1970-01-01/hour=01": 1_000_000},
        "due": [],
    }
