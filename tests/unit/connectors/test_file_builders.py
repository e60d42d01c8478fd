"""PyFlink's way of building file sources and sinks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.common import Duration, Encoder
from tidegate.connectors.files import Compaction, ParquetFormat, ParquetRows, TimeBuckets
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from tidegate.errors import ConfigError


def test_lines_go_from_a_source_to_a_sink_that_were_built(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("to be\nor not\n", encoding="utf-8")
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(tmp_path / "state"),
        }
    )
    lines = StreamFormat.text_line_format()
    source = FileSource.for_record_stream_format(lines, str(tmp_path / "in")).process_static_file_set()
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("words").with_part_suffix(".txt").build()
        )
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_bucket_check_interval(1000)
        .disable_compact()
    )
    env.from_source(source.build(), source_name="lines").map(str.split).sink_to(sink.build())
    env.execute("copy")

    files = list((tmp_path / "out").glob("words-*.txt"))
    written = sorted(line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    assert written == ["['or', 'not']", "['to', 'be']"]


def test_a_file_config_tells_its_names() -> None:
    names = OutputFileConfig("orders", ".csv")

    assert (names.get_part_prefix(), names.get_part_suffix()) == ("orders", ".csv")


def test_without_a_file_config_names_are_the_sinks() -> None:
    sink = FileSink.for_row_format("out", Encoder()).with_rolling_policy(
        RollingPolicy.on_checkpoint_rolling_policy()
    )

    assert sink.build().options.prefix == "part"


def test_a_source_that_was_built_reads_all_its_paths_and_may_watch_them() -> None:
    columns = ParquetFormat(columns=("id",))
    builder = FileSource.for_bulk_file_format(columns, "a", "b")

    watching = builder.monitor_continuously(Duration.of_seconds(2)).build()
    assert (watching.paths, watching.format, watching.watch_ms) == (["a", "b"], columns, 2_000)
    assert (watching.bounded, builder.process_static_file_set().build().bounded) == (False, True)


def test_without_being_told_otherwise_files_of_lines_span_checkpoints_in_a_folder_per_hour() -> None:
    options = FileSink.for_row_format("out", Encoder()).build().options

    assert options.rolling == RollingPolicy(128 * 1024 * 1024, 60_000, 60_000, on_checkpoint=False)
    assert options.buckets == TimeBuckets("yyyy-MM-dd--HH")


def test_files_of_blocks_end_with_each_checkpoint() -> None:
    rows = ParquetRows(pa.schema({"id": pa.int64()}))
    builder = FileSink.for_bulk_format("out", rows)

    assert builder.build().options.rolling == RollingPolicy()
    with pytest.raises(
        ConfigError, match=r"a ParquetRows file is complete only when it is closed, .* expected on_checkpoint"
    ):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy()).build()


def test_a_compaction_is_told_when_and_how() -> None:
    strategy = (
        FileCompactStrategy.builder()
        .set_size_threshold(1024)
        .enable_compaction_on_checkpoint(5)
        .set_num_compact_threads(2)
        .build()
    )
    builder = FileSink.for_row_format("out", Encoder())

    joined = builder.enable_compact(strategy, FileCompactor.concat_file_compactor(b"--")).build()
    assert joined.options.compaction == Compaction(1024, 5, b"--")
    assert builder.disable_compact().build().options.compaction is None
    untouched = builder.enable_compact(strategy, FileCompactor.identical_file_compactor()).build()
    assert untouched.options.compaction is None
