"""Tables are made of a schema and options by the factory that they name, and run in jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.changelog import ChangelogMode
from tidegate.connectors.generator.table import DataGenTable, DataGenTableSource
from tidegate.connectors.print.table import PrintTable
from tidegate.connectors.table_spi import (
    Comparison,
    Filter,
    IsNull,
    Not,
    PushedFilters,
    ScanTableSource,
    SupportsFilter,
    SupportsLimit,
    SupportsParallelism,
    SupportsProjection,
    SupportsTableSink,
    SupportsTableSource,
    TableDescription,
    push_filters,
    table_sink,
    table_source,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, InternalError
from tidegate.schema import Schema
from tidegate.twophase.spi import WriterContext
from tidegate.type_mapping import type_information
from tidegate.type_values import converter

NOTHING: Mapping[str, str] = {}
COLUMNS = ["id", "amount", "name", "rate"]
SCHEMA = Schema.new_builder().from_fields(COLUMNS, ["INT", "INT", "STRING", "DOUBLE"]).build()
DATAGEN = {
    "connector": "datagen",
    "rows-per-second": "1000000",
    "fields.id.kind": "sequence",
    "fields.id.start": "1",
    "fields.id.end": "1000",
    "fields.amount.min": "1",
    "fields.amount.max": "1000",
    "fields.name.length": "10",
    "fields.rate.max": "1",
}


def generated(options: Mapping[str, str] = NOTHING, schema: Schema = SCHEMA) -> DataGenTableSource:
    found = table_source(TableDescription("orders", schema, {"connector": "datagen", **options}))
    assert isinstance(found, DataGenTableSource)
    return found


def one_column(type: str, options: Mapping[str, str] = NOTHING) -> DataGenTableSource:
    return generated(options, Schema.new_builder().column("x", type).build())


def rows_of(source: ScanTableSource, count: int) -> list[Any]:
    scan: Any = source.scan()
    return [scan.function(number) for number in range(count)]


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_generated_rows_are_printed_as_changes(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    source = table_source(TableDescription("source", SCHEMA, DATAGEN))
    assert isinstance(source, ScanTableSource)
    sink = table_sink(TableDescription("sink", SCHEMA, {"connector": "print", "print-identifier": "out"}))
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": 2,
            "pipeline.progress": "off",
        }
    )
    assert sink.changelog_mode(source.changelog_mode) == ChangelogMode.insert_only()
    rows = env.from_source(source.scan(), type_info=type_information(SCHEMA.row_type))
    rows.sink_to(sink.sink())
    env.execute("tables")

    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("out")]
    found = [
        re.fullmatch(r"out:[12]> \+I\((\d+),(\d+),([0-9a-f]{10}),(0\.\d+(?:e-\d+)?)\)", line)
        for line in lines
    ]
    assert sorted(int(match[1]) for match in found if match) == list(range(1, 1_001))
    assert all(1 <= int(match[2]) <= 1_000 for match in found if match)


@pytest.mark.parametrize(
    "type",
    ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(7)", "VARCHAR(3)", "STRING", "BOOLEAN"],
)
def test_generated_values_are_of_the_type_of_their_column(type: str) -> None:
    source = one_column(f"{type} NOT NULL")
    convert = converter(Schema.new_builder().column("x", type).build().row_type)
    rows = rows_of(source, 200)

    assert [convert(row) for row in rows] == rows
    assert len(set(rows)) > (1 if type == "BOOLEAN" else 50)


def test_a_table_has_the_abilities_that_its_source_shows() -> None:
    source = generated({"scan.parallelism": "3", "number-of-rows": "10"})

    assert isinstance(source, SupportsProjection)
    assert isinstance(source, SupportsLimit)
    assert isinstance(source, SupportsParallelism)
    assert not isinstance(source, SupportsFilter)
    assert (source.parallelism, source.changelog_mode) == (3, ChangelogMode.insert_only())
    assert isinstance(DataGenTable(), SupportsTableSource)
    assert not isinstance(DataGenTable(), SupportsTableSink)
    assert isinstance(PrintTable(), SupportsTableSink)


def test_a_projection_gives_the_same_values_in_the_order_asked_for() -> None:
    whole, part = generated(), generated().with_projection(["rate", "id"])

    assert [(row[3], row[0]) for row in rows_of(whole, 20)] == rows_of(part, 20)
    assert rows_of(generated().with_projection([]), 2) == [(), ()]


def test_a_table_ends_with_its_rows_its_sequence_or_a_limit() -> None:
    sequence = {"fields.id.kind": "sequence", "fields.id.start": "5", "fields.id.end": "9"}

    assert not generated().scan().bounded
    assert generated({"number-of-rows": "7"}).scan().count == 7
    assert generated(sequence).scan().count == 5
    assert generated(sequence).with_projection(["name"]).scan().count == 5
    assert generated(sequence).with_limit(3).scan().count == 3
    assert generated().with_limit(3).scan().count == 3


def test_a_printed_change_shows_its_kind(
    writer_context: Callable[..., WriterContext], capsys: pytest.CaptureFixture[str]
) -> None:
    sink = table_sink(TableDescription("t", SCHEMA, {"connector": "print", "standard-error": "true"}))
    writer = sink.sink().open_writer(writer_context())
    writer.write(Batch([(1, "a"), (1, None)], kinds=[RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]))

    assert capsys.readouterr().err.splitlines() == ["-U(1,a)", "+U(1,None)"]
    assert sink.changelog_mode(ChangelogMode.all()) == ChangelogMode.all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "table orders has no option 'connector'; expected one of datagen, jdbc, postgres-cdc, print"),
        ({"connector": "datagne"}, "no table factory is called 'datagne'; did you mean 'datagen'"),
        (
            {"connector": "print"},
            "table orders cannot be read: connector 'print' is a sink only; expected one of datagen",
        ),
        (
            {"rows-per-secnod": "1"},
            "unknown option 'rows-per-secnod' in the options of table orders; did you mean 'rows-per-second'",
        ),
        ({"rows-per-second": "0"}, "option 'rows-per-second' is out of range; got 0; expected at least 1"),
        (
            {"number-of-rows": "many"},
            "option 'number-of-rows' in the options of table orders has an invalid value; got 'many'; expected int",
        ),
        (
            {"fields.idd.kind": "random"},
            "column 'idd' does not exist in table orders, but option 'fields.idd.kind' is of it; did you mean 'id'",
        ),
        (
            {"fields.id.knd": "random"},
            "unknown option 'knd' in the options fields.id of table orders; did you mean 'kind'",
        ),
        ({"fields.name.min": "1"}, "unknown option 'min' in the options fields.name of table orders"),
        (
            {"fields.id.kind": "sequence"},
            "fields.id of table orders: a sequence needs a first and a last value; expected 'start' and 'end'",
        ),
        ({"fields.id.kind": "sequence", "fields.id.min": "1"}, "min and max do not go with kind 'sequence'"),
        ({"fields.id.start": "1"}, "start and end do not go with kind 'random'"),
        ({"fields.id.max": "3000000000"}, "3000000000 is out of range; expected a value of INT"),
        (
            {"fields.rate.min": "2", "fields.rate.max": "1"},
            "2.0 to 1.0 is out of range; expected values of DOUBLE",
        ),
        ({"fields.name.length": "0"}, "length 0 is out of range of STRING; expected 1 to 2147483647"),
        (
            {
                "fields.id.kind": "sequence",
                "fields.id.start": "1",
                "fields.id.end": "3",
                "number-of-rows": "4",
            },
            "4 rows of an ascending field with 3 values",
        ),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], message: str) -> None:
    given = options if not options or "connector" in options else {"connector": "datagen", **options}
    with pytest.raises(ConfigError, match=re.escape(message)):
        table_source(TableDescription("orders", SCHEMA, given))


def test_a_length_of_a_char_is_that_of_its_type() -> None:
    with pytest.raises(ConfigError, match=r"length 3 is out of range of CHAR\(5\); expected 5"):
        one_column("CHAR(5)", {"fields.x.length": "3"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            Schema.new_builder().column("tags", "ARRAY<INT>").build(),
            "column 'tags' of table orders is of type ARRAY<INT>, which connector 'datagen' cannot generate; expected one of",
        ),
        (Schema(), "table orders has no physical column; expected one or more to generate"),
        (
            Schema.new_builder().column("a", "INT").column_by_metadata("at", "INT", "offset").build(),
            "column 'offset' does not exist in the metadata that connector 'datagen' reads, but column 'at' of table orders is "
            "of it; known are none",
        ),
    ],
    ids=["type", "no column", "metadata"],
)
def test_a_schema_that_cannot_be_read_is_refused(schema: Schema, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        generated(schema=schema)


@pytest.mark.parametrize(
    ("connector", "schema", "partitions", "message"),
    [
        (
            "datagen",
            SCHEMA,
            (),
            "table t cannot be written: connector 'datagen' is a source only; expected one of jdbc, print",
        ),
        (
            "print",
            SCHEMA,
            ("name",),
            "table t is partitioned by name; connector 'print' writes no partitions; remove PARTITIONED BY",
        ),
        (
            "print",
            Schema.new_builder().column("a", "INT").column_by_metadata("at", "INT").build(),
            (),
            "column 'at' does not exist in the metadata that connector 'print' writes",
        ),
    ],
    ids=["source only", "partitions", "metadata"],
)
def test_a_table_that_cannot_be_written_is_refused(
    connector: str, schema: Schema, partitions: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        table_sink(TableDescription("t", schema, {"connector": connector}, partitions))


def test_a_virtual_metadata_column_is_not_written() -> None:
    schema = Schema.new_builder().column("a", "INT").column_by_metadata("at", "INT", is_virtual=True).build()

    assert (
        table_sink(TableDescription("t", schema, {"connector": "print"})).sink().delivery == "at-least-once"
    )


@dataclass(frozen=True)
class Forgetful:
    keeps: tuple[Filter, ...]

    def with_filters(self, filters: Sequence[Filter]) -> PushedFilters:
        return PushedFilters(generated(), (), self.keeps)


def test_a_filter_that_a_source_forgets_is_not_lost_silently() -> None:
    one, other = IsNull(("id",)), Not(Comparison(("id",), "=", 1))

    assert push_filters(Forgetful((other, one)), [one, other]).remaining == (other, one)
    with pytest.raises(
        InternalError, match=r"Forgetful lost the filter Not\(filter=Comparison\(.*; report it"
    ):
        push_filters(Forgetful((one,)), [one, other])


def test_a_partition_column_is_a_physical_column() -> None:
    with pytest.raises(
        ConfigError,
        match="column 'idd' does not exist in the physical columns of table t, which is partitioned",
    ):
        TableDescription("t", SCHEMA, {}, ("idd",))
