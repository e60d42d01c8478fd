"""A sink of files said by the keys of Flink's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.connectors.files import (
    JsonLines,
    ParquetRows,
    Partition,
    PartitionCommit,
    RollingPolicy,
    SuccessFile,
    table_sink,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError

HERE = "tests.unit.connectors.test_table_keys"
MINUTE = 60_000
COMMIT = "sink.partition-commit"


class Marks:
    """A policy of the program's own."""

    def commit(self, partition: Partition) -> None:
        (Path(partition.path) / "_marked").touch()


def tenth_of_hour(fields: Mapping[str, str]) -> int:
    return int(fields["tenth"]) * 6 * MINUTE


def committed(**keys: str) -> PartitionCommit | None:
    said = {name.replace("__", ".").replace("_", "-"): value for name, value in keys.items()}
    return table_sink("out", JsonLines(), said, ["dt", "hr"]).options.partition_commit


@pytest.mark.spec("004/HIV-027")
def test_files_of_lines_end_with_128_megabytes_or_half_an_hour_unless_told_otherwise() -> None:
    size, rows = 128 * 1024 * 1024, ParquetRows(pa.schema({"id": pa.int64()}))
    told = {
        "sink.rolling-policy.file-size": "1 mb",
        "sink.rolling-policy.rollover-interval": "2 min",
        "sink.rolling-policy.inactivity-interval": "3 min",
        "sink.rolling-policy.check-interval": "1 min",
    }

    assert table_sink("out", JsonLines(), {}).options.rolling == RollingPolicy(
        size, 30 * MINUTE, 30 * MINUTE, on_checkpoint=False
    )
    assert table_sink("out", rows, {}).options.rolling == RollingPolicy(size, 30 * MINUTE, 30 * MINUTE)
    assert table_sink("out", JsonLines(), told).options.rolling == RollingPolicy(
        1024 * 1024, 2 * MINUTE, 3 * MINUTE, on_checkpoint=False
    )


@pytest.mark.spec("004/HIV-020")
def test_partitions_are_committed_by_the_keys_and_without_a_policy_never() -> None:
    assert committed(sink__partition_commit__delay="1 h") is None
    assert committed(sink__partition_commit__policy__kind="success-file") == PartitionCommit(
        "process-time", 0, (SuccessFile("_SUCCESS"),)
    )
    assert committed(
        sink__partition_commit__trigger="partition-time",
        sink__partition_commit__delay="1 h",
        sink__partition_commit__policy__kind="success-file",
        partition__time_extractor__timestamp_pattern="$dt $hr:00:00",
        sink__partition_commit__watermark_time_zone="Europe/Vienna",
    ) == PartitionCommit(
        "partition-time", 60 * MINUTE, (SuccessFile(),), "$dt $hr:00:00", zone="Europe/Vienna"
    )


@pytest.mark.spec("004/HIV-020")
def test_policies_are_combined_and_may_be_the_programs_own(tmp_path: Path) -> None:
    keys = {
        "sink.partition-commit.policy.kind": "success-file,custom",
        "sink.partition-commit.policy.class": f"{HERE}:Marks",
        "partition.time-extractor.kind": "custom",
        "partition.time-extractor.class": f"{HERE}:tenth_of_hour",
    }
    sink = table_sink(str(tmp_path), JsonLines(), keys, ["tenth"])
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "parallelism.default": 1, "pipeline.progress": "off"}
    )
    env.from_collection([{"id": 1, "tenth": "4"}]).sink_to(sink)
    env.execute()

    assert sink.options.partition_commit is not None
    assert sink.options.partition_commit.time_of({"tenth": "4"}) == 24 * MINUTE
    assert {path.name for path in (tmp_path / "tenth=4").glob("_*")} == {"_SUCCESS", "_marked"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {f"{COMMIT}.policy.kind": "metastore"},
            r"policy 'metastore' needs a Hive catalog; got",
        ),
        (
            {f"{COMMIT}.policy.kind": "custom"},
            r"option 'sink.partition-commit.policy.class' is None, which cannot be loaded",
        ),
        (
            {f"{COMMIT}.policy.kind": "custom", f"{COMMIT}.policy.class": f"{HERE}:Gone"},
            r"test_table_keys:Gone', which cannot be loaded \(.*\); expected module:name",
        ),
        (
            {f"{COMMIT}.policy.kind": "success-file", "partition.time-extractor.kind": "custom"},
            r"option 'partition.time-extractor.class' is None, which cannot be loaded",
        ),
        (
            {f"{COMMIT}.trigger": "event-time"},
            r"option 'sink.partition-commit.trigger' in the options of a tab",
        ),
        ({f"{COMMIT}.dealy": "1 s"}, r"unknown option 'sink.partition-commit.dealy' .*did you mean"),
    ],
    ids=["metastore", "no class", "class that is gone", "no extractor", "trigger", "unknown"],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        table_sink("out", JsonLines(), keys, ["dt"])
