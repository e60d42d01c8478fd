"""Arrow batches in programs: what stays Arrow, and that every step gets the rows it would have got."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tidegate.arrow_rows import ArrowRows
from tidegate.common import Duration, Row, RowKind, Types
from tidegate.connectors.files import (
    BucketAssigner,
    FileSink,
    FileSinkOptions,
    HivePartitions,
    OrcFormat,
    OrcRows,
    ParquetFormat,
    ParquetRows,
    RecordFileSource,
)
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.files.row_types import ParquetColumnarRowInputFormat
from tidegate.connectors.spi import Poll, ReaderContext
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from tidegate.elements import Batch
from tidegate.errors import JobFailedError
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

SCHEMA = pa.schema({"id": pa.int64(), "user": pa.string(), "amount": pa.float64()})
COUNT = 3_000
ROWS: list[dict[str, Any]] = [
    {"id": number, "user": f"u{number % 7}", "amount": number / 4} for number in range(COUNT)
]
EVEN = OutputTag("even")
KINDS = list(RowKind)


@dataclass(frozen=True)
class OnlyArrow(ParquetRows):
    """Parquet files from Arrow; rows are refused, and so are columns that somebody has made rows of."""

    def encode(self, values: list[Any]) -> Any:
        raise AssertionError(f"{len(values)} rows were made")

    def encode_arrow(self, rows: ArrowRows) -> Any:
        assert not rows.converted
        return super().encode_arrow(rows)


@pytest.fixture
def orders(tmp_path: Path, anywhere: StreamExecutionEnvironment) -> DataStream[Any]:
    (tmp_path / "in").mkdir()
    for part in range(3):
        rows = ROWS[part * 1_000 : (part + 1) * 1_000]
        pq.write_table(
            pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in" / f"{part}.parquet", row_group_size=300
        )
    return anywhere.from_source(RecordFileSource(str(tmp_path / "in"), ParquetFormat()))


def arrow_sink(tmp_path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> FileSink:
    return FileSink(tmp_path / "out", OnlyArrow(schema), FileSinkOptions(**options))


def written(tmp_path: Path, folder: str = "out") -> list[dict[str, Any]]:
    found = [pq.ParquetFile(path).read().to_pylist() for path in (tmp_path / folder).rglob("part*.parquet")]
    return sorted((row for rows in found for row in rows), key=lambda row: row["id"])


@pytest.mark.parametrize(
    "deal",
    [
        lambda stream: stream,
        lambda stream: stream.rebalance(),
        lambda stream: stream.shuffle(),
        lambda stream: stream.rescale(),
        lambda stream: stream.global_(),
        lambda stream: stream.key_by("user"),
        lambda stream: stream.partition_custom(lambda key, count: key % count, "id"),
        lambda stream: (
            stream.rebalance()
            .union(stream.shuffle())
            .transform("half", EXPRESSIONS, Expressions((Branch(where="True"),)))
        ),
    ],
    ids=["forward", "rebalance", "shuffle", "rescale", "global", "by column", "custom by column", "union"],
)
def test_no_row_is_made_between_parquet_files(
    orders: DataStream[Any],
    deal: Callable[[DataStream[Any]], DataStream[Any]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    deal(orders).sink_to(arrow_sink(tmp_path))
    orders.get_execution_environment().execute()

    found = written(tmp_path)
    assert found[:: len(found) // COUNT] == ROWS
    assert len(found) == COUNT * (2 if "union" in request.node.name else 1)


def test_a_filter_and_a_projection_read_only_their_columns(orders: DataStream[Any], tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "who": pa.string()})
    branch = Branch('{"id": v["id"], "who": v["user"]}', where='v["amount"] >= limit and v["id"] % 2')
    step = Expressions((branch,), names={"limit": 100})
    orders.transform("large", EXPRESSIONS, step).rebalance().sink_to(arrow_sink(tmp_path, schema))
    orders.get_execution_environment().execute()

    assert written(tmp_path) == [
        {"id": row["id"], "who": row["user"]} for row in ROWS if row["amount"] >= 100 and row["id"] % 2
    ]


def test_side_outputs_of_expressions_stay_arrow(orders: DataStream[Any], tmp_path: Path) -> None:
    step = Expressions((Branch(where='v["id"] % 2'), Branch(where='not v["id"] % 2', tag=EVEN)))
    odd = orders.transform("parity", EXPRESSIONS, step)
    odd.sink_to(arrow_sink(tmp_path))
    odd.get_side_output(EVEN).rebalance().sink_to(FileSink(tmp_path / "even", OnlyArrow(SCHEMA)))
    orders.get_execution_environment().execute()

    assert (written(tmp_path), written(tmp_path, "even")) == (ROWS[1::2], ROWS[::2])


@pytest.mark.parametrize("bucket", ["hive", "hour"])
def test_folders_of_a_sink_need_no_rows(orders: DataStream[Any], bucket: str, tmp_path: Path) -> None:
    hive = bucket == "hive"
    schema = pa.schema([field for field in SCHEMA if field.name != "user"]) if hive else SCHEMA
    buckets = HivePartitions("user") if hive else BucketAssigner.date_time_bucket_assigner()
    orders.sink_to(arrow_sink(tmp_path, schema, buckets=buckets))
    orders.get_execution_environment().execute()

    expected = [{name: row[name] for name in schema.names} for row in ROWS]
    assert written(tmp_path) == expected
    if hive:
        assert {path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "."} == {
            f"user=u{number}" for number in range(7)
        }


def test_columns_are_adapted_to_the_schema_of_the_sink(orders: DataStream[Any], tmp_path: Path) -> None:
    schema = pa.schema(
        {"amount": pa.float64(), "id": pa.int32(), "user": pa.large_string(), "note": pa.string()}
    )
    orders.sink_to(arrow_sink(tmp_path, schema))
    orders.get_execution_environment().execute()

    assert written(tmp_path) == [row | {"note": None} for row in ROWS]


def test_orc_files_come_and_go_as_columns(tmp_path: Path, anywhere: StreamExecutionEnvironment) -> None:
    class OnlyArrowOrc(OrcRows):
        def encode(self, values: list[Any]) -> Any:
            raise AssertionError(f"{len(values)} rows were made")

    orc.write_table(pa.Table.from_pylist(ROWS, SCHEMA), tmp_path / "in.orc")
    source = RecordFileSource(str(tmp_path / "in.orc"), OrcFormat())
    anywhere.from_source(source).rebalance().sink_to(FileSink(tmp_path / "out", OnlyArrowOrc(SCHEMA)))
    anywhere.execute()

    found = [orc.ORCFile(path).read().to_pylist() for path in (tmp_path / "out").glob("part*")]
    assert sorted((row for rows in found for row in rows), key=lambda row: row["id"]) == ROWS


class Sorted(ProcessFunction):
    """Even numbers to the side."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield (EVEN, value) if value["id"] % 2 == 0 else value


def spoilt(row: dict[str, Any]) -> dict[str, Any]:
    """Changes the record that it got, which nobody else may see."""
    row["user"] = "spoilt"
    return row


def test_every_reader_of_the_same_columns_has_rows_of_its_own(
    orders: DataStream[Any], tmp_path: Path
) -> None:
    orders.map(spoilt).rebalance().sink_to(FileSink(tmp_path / "spoilt", ParquetRows(SCHEMA)))
    orders.rebalance().map(spoilt).sink_to(FileSink(tmp_path / "also", ParquetRows(SCHEMA)))
    orders.broadcast().map(spoilt).sink_to(FileSink(tmp_path / "all", ParquetRows(SCHEMA)))
    orders.sink_to(arrow_sink(tmp_path))
    orders.get_execution_environment().execute()

    assert written(tmp_path) == ROWS
    assert (
        written(tmp_path, "spoilt") == written(tmp_path, "also") == [row | {"user": "spoilt"} for row in ROWS]
    )
    assert len(written(tmp_path, "all")) == orders.get_execution_environment().get_parallelism() * COUNT


def test_functions_get_rows_wherever_they_stand(orders: DataStream[Any]) -> None:
    odd = orders.process(Sorted())
    even = odd.get_side_output(EVEN).rebalance()
    both = odd.union(even).key_by(lambda row: row["user"])
    totals = both.map(lambda row: (row["user"], row["id"])).key_by(lambda pair: pair[0])
    found = totals.reduce(lambda one, two: (one[0], one[1] + two[1]))

    last: dict[str, int] = {}
    for user, total in found.execute_and_collect():
        last[user] = max(total, last.get(user, 0))

    assert last == {f"u{user}": sum(range(user, COUNT, 7)) for user in range(7)}


def test_a_declared_type_that_the_columns_have_is_no_reason_for_rows(
    orders: DataStream[Any], tmp_path: Path
) -> None:
    env = orders.get_execution_environment()
    declared = Types.ROW_NAMED(["user", "id"], [Types.STRING(), Types.LONG()])
    source = RecordFileSource(str(tmp_path / "in"), ParquetColumnarRowInputFormat(declared))
    schema = pa.schema({"user": pa.string(), "id": pa.int64()})
    typed = env.from_source(source, type_info=declared)
    typed.rebalance().sink_to(arrow_sink(tmp_path, schema))
    env.execute()

    assert written(tmp_path) == [{"user": row["user"], "id": row["id"]} for row in ROWS]
    assert sorted((row["id"], type(row)) for row in typed.execute_and_collect())[-1] == (COUNT - 1, Row)


class Lookup(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value["id"]]


def test_an_asynchronous_function_gets_rows(orders: DataStream[Any]) -> None:
    answers = AsyncDataStream.unordered_wait(orders.rebalance(), Lookup(), Duration.of_seconds(60), 100)

    assert sorted(answers.execute_and_collect()) == list(range(COUNT))


def test_columns_go_round_in_an_iteration(orders: DataStream[Any]) -> None:
    with pytest.warns(DeprecationWarning, match="iterate"):
        iteration = orders.iterate(100)
    fewer = Expressions((Branch('{"id": v["id"] - 1_000}', where='v["id"] >= 1_000'),))
    iteration.close_with(iteration.transform("fewer", EXPRESSIONS, fewer).rebalance())
    ended = iteration.transform(
        "ended", EXPRESSIONS, Expressions((Branch('v["id"]', where='v["id"] < 1_000'),))
    )

    assert Counter(ended.execute_and_collect()) == dict.fromkeys(range(1000), 3)


@pytest.fixture
def batch(anywhere: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
    anywhere.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return anywhere


def test_results_of_batch_tasks_are_columns(
    orders: DataStream[Any], batch: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    orders.rebalance().sink_to(arrow_sink(tmp_path))
    batch.execute()

    assert written(tmp_path) == ROWS


class ChangeReader(FileReader):
    def poll(self, limit: int) -> Poll:
        found = super().poll(limit)
        if isinstance(found, Batch):
            assert isinstance(found.values, ArrowRows)
            found.timestamps = found.values.column("id")
            found.kinds = [KINDS[number % 4] for number in found.timestamps]
        return found


class Changes(RecordFileSource):
    """Rows with kinds, and their numbers as times."""

    def open_reader(self, context: ReaderContext) -> FileReader:
        return ChangeReader(self.format, self.on_error, context)


class Timed(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield Row.of_kind(value.get_row_kind(), value["id"], ctx.timestamp())


def test_kinds_and_times_go_along_with_columns(orders: DataStream[Any], tmp_path: Path) -> None:
    env = orders.get_execution_environment()
    rows = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["id", "user"], [Types.LONG(), Types.STRING()]))
    changes = env.from_source(Changes(str(tmp_path / "in"), rows)).key_by("user")
    odd = changes.transform("odd", EXPRESSIONS, Expressions((Branch(where="t % 2"),)))

    found = odd.rebalance().process(Timed()).execute_and_collect()

    assert sorted((row[0], row[1], row.get_row_kind()) for row in found) == [
        (number, number, KINDS[number % 4]) for number in range(1, COUNT, 2)
    ]


def test_what_was_reached_is_read_from_rows_where_it_fails(orders: DataStream[Any], tmp_path: Path) -> None:
    step = Expressions((Branch(where='10 / (v["id"] - 1_234)'),))
    orders.transform("divided", EXPRESSIONS, step).sink_to(arrow_sink(tmp_path))

    with pytest.raises(
        JobFailedError,
        match=r"(?s)'divided'.* failed in expression .*1_234\)' on record \{'id': 1234, .* at position 234 of split",
    ):
        orders.get_execution_environment().execute()


def test_a_row_that_a_sink_refuses_is_named_or_set_aside(orders: DataStream[Any], tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int8(), "user": pa.string(), "amount": pa.float64()})
    options = FileSinkOptions(on_error="dead_letter", dead_letters="_refused")
    orders.sink_to(FileSink(tmp_path / "out", ParquetRows(schema), options))
    orders.get_execution_environment().execute()

    refused = [
        json.loads(line)
        for path in (tmp_path / "out" / "_refused").glob("part*")
        for line in path.read_text().splitlines()
    ]
    assert [row["id"] for row in written(tmp_path)] == list(range(128))
    assert len(refused) == COUNT - 128


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return dict(value)

    map2 = map1


def test_collected_records_are_rows(orders: DataStream[Any]) -> None:
    found = list(orders.connect(orders.rebalance()).map(Both()).execute_and_collect())

    assert Counter(row["id"] for row in found) == dict.fromkeys(range(COUNT), 2)
    assert {type(row) for row in orders.execute_and_collect()} == {dict}
