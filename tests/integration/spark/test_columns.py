"""Arrow batches in streams on Spark: between its stages they are columns, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.connectors.files import FileSink, ParquetFormat, ParquetRows, RecordFileSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

COUNT = 2_000
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


def test_no_row_is_made_between_the_stages_of_several_epochs(tmp_path: Path) -> None:
    class ColumnsOnly(ParquetRows):
        def encode(self, values: list[Any]) -> Any:
            raise AssertionError(f"{len(values)} rows were made")

    rows: list[dict[str, Any]] = [{"id": number, "name": f"n{number % 9}"} for number in range(COUNT)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in.parquet", row_group_size=700)
    settings = {
        "pipeline.progress": "off",
        "execution.spark.epoch-records": 300,
        "restart-strategy.fixed-delay.attempts": 0,
        "state.checkpoints.dir": str(tmp_path / "state"),
    }
    env = StreamExecutionEnvironment.on_spark("local[2]", settings).set_parallelism(2)
    step = Expressions((Branch(where='v["id"] % 3'),))
    source = RecordFileSource(str(tmp_path / "in.parquet"), ParquetFormat())
    kept = env.from_source(source).transform("kept", EXPRESSIONS, step).key_by("name")
    kept.sink_to(FileSink(tmp_path / "out", ColumnsOnly(SCHEMA)))
    env.execute("columns")

    files = list((tmp_path / "out").glob("part-*"))
    found = [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]
    assert sorted(found, key=lambda row: row["id"]) == [row for row in rows if row["id"] % 3]
    assert len(files) > 2
