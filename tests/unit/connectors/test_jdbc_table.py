"""Tables of the connector `jdbc`: scanned with what is pushed into them, looked up, and written."""

from __future__ import annotations

import datetime
import decimal
import sqlite3
import traceback
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidegate.changelog import ChangelogMode
from tidegate.clock import ManualClock
from tidegate.connectors.database.lookup import DatabaseLookup
from tidegate.connectors.database.table import JdbcTableSource
from tidegate.connectors.table_spi import (
    Comparison,
    Filter,
    IsNull,
    Not,
    TableDescription,
    push_filters,
    table_sink,
    table_source,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, TidegateError
from tidegate.row import Row
from tidegate.schema import Schema

SCHEMA = (
    Schema.new_builder()
    .column("id", "BIGINT NOT NULL")
    .column("name", "STRING")
    .column("amount", "DECIMAL(10, 2)")
    .column("paid", "BOOLEAN")
    .column("day", "DATE")
    .primary_key("id")
    .build()
)
ROWS = [
    (
        number,
        f"n{number}",
        decimal.Decimal(number).quantize(decimal.Decimal("0.01")),
        number % 2 == 0,
        datetime.date(2024, 5, 1 + number),
    )
    for number in range(6)
]
NOTHING: Mapping[str, str] = {}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "shop.db"
    with closing(sqlite3.connect(place)) as database, database:
        database.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, amount TEXT, paid BOOLEAN, day TEXT)"
        )
        stored = [(*row[:2], str(row[2]), row[3], row[4].isoformat()) for row in ROWS]
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", stored)
    return place


def described(file: Path, options: Mapping[str, str] = NOTHING, schema: Schema = SCHEMA) -> TableDescription:
    own = {"connector": "jdbc", "url": f"jdbc:sqlite:{file}", "table-name": "orders"}
    return TableDescription("orders", schema, {**own, **options})


def source_of(file: Path, options: Mapping[str, str] = NOTHING) -> JdbcTableSource:
    found = table_source(described(file, options))
    assert isinstance(found, JdbcTableSource)
    return found


def environment() -> StreamExecutionEnvironment:
    settings = {
        "execution.target": "inline",
        "parallelism.default": 2,
        "pipeline.progress": "off",
        "restart-strategy.type": "none",
    }
    return StreamExecutionEnvironment.get_execution_environment(settings)


def scanned(source: JdbcTableSource) -> list[Any]:
    with environment().from_source(source.scan()).execute_and_collect() as rows:
        return sorted(rows)


@pytest.mark.spec("003/TC-05")
def test_a_table_is_scanned_in_its_types(file: Path) -> None:
    assert scanned(source_of(file)) == ROWS
    assert source_of(file).changelog_mode == ChangelogMode.insert_only()


def test_a_table_is_cut_by_a_column_with_and_without_bounds(file: Path) -> None:
    cut = {"scan.partition.column": "id", "scan.partition.num": "4"}
    assert scanned(source_of(file, cut)) == ROWS
    some = {**cut, "scan.partition.lower-bound": "1", "scan.partition.upper-bound": "3"}
    assert scanned(source_of(file, some)) == ROWS[1:4]


def test_columns_filters_and_limits_are_pushed_into_the_query(file: Path) -> None:
    source = source_of(file).with_projection(["name", "id"])
    assert scanned(source) == sorted((row[1], row[0]) for row in ROWS)
    assert scanned(source_of(file).with_projection([])) == [()] * 6
    filters: list[Filter] = [
        Comparison(("id",), ">", 2),
        Comparison(("paid",), "=", True),
        Not(IsNull(("name",))),
    ]
    pushed = push_filters(source, filters)
    assert pushed.accepted == tuple(filters[:2])
    assert pushed.remaining == tuple(filters), (
        "they are evaluated again, since the database may compare otherwise"
    )
    assert isinstance(pushed.source, JdbcTableSource)
    assert scanned(pushed.source) == [("n4", 4)]
    assert len(scanned(source.with_limit(4).with_limit(2))) == 2
    listed = source.with_filters([Comparison(("id",), "in", (1, 5)), Comparison(("id",), "in", ())])
    assert len(listed.accepted) == 1
    assert scanned(listed.source) == [("n1", 1), ("n5", 5)]  # type: ignore[arg-type] # one of jdbc


def test_texts_are_not_put_in_order_by_the_database(file: Path) -> None:
    assert source_of(file).with_filters([Comparison(("name",), "<", "b")]).accepted == ()


@pytest.mark.spec("003/TC-05")
def test_rows_are_looked_up_by_any_columns_in_the_order_of_the_keys(file: Path) -> None:
    function = source_of(file).lookup(("id",))
    function.open()
    assert function.lookup([(3,), (99,), (1,), (3,), (None,)]) == [(ROWS[3],), (), (ROWS[1],), (ROWS[3],), ()]
    function.close()

    by_two = source_of(file).with_projection(["id"]).lookup(("paid", "name"))
    by_two.open()
    assert by_two.lookup([(True, "n2"), (False, "n2")]) == [((2,),), ()]
    assert by_two.lookup([(number % 2 == 0, f"n{number}") for number in range(1_200)])[:2] == [
        ((0,),),
        ((1,),),
    ]
    by_two.close()


def test_a_cache_remembers_rows_until_they_are_too_old_or_too_many(file: Path) -> None:
    options = {
        "lookup.cache": "PARTIAL",
        "lookup.partial-cache.max-rows": "2",
        "lookup.partial-cache.expire-after-write": "10 s",
    }
    function = source_of(file, options).with_projection(["name"]).lookup(("id",))
    clock = ManualClock()
    assert isinstance(function, DatabaseLookup)
    function.clock = clock
    function.open()
    assert function.lookup([(1,), (99,)]) == [(("n1",),), ()]
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE orders SET name = 'changed'")
        database.execute("INSERT INTO orders (id, name) VALUES (99, 'new')")
    assert function.lookup([(1,), (99,)]) == [(("n1",),), ()]
    clock.advance(10_000)
    assert function.lookup([(1,), (99,)]) == [(("changed",),), (("new",),)]
    assert function.lookup([(2,), (3,)]) == [(("changed",),)] * 2
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE orders SET name = 'again'")
    assert function.lookup([(1,), (3,)]) == [(("again",),), (("changed",),)], (
        "the key asked for longest ago went"
    )
    function.close()


@pytest.mark.spec("003/TC-05", "003/DS-24")
def test_a_table_with_a_primary_key_takes_updates_and_one_without_insertions(file: Path) -> None:
    sink = table_sink(described(file))
    assert sink.changelog_mode(ChangelogMode.all()) == ChangelogMode.upsert(key_only_deletes=True)
    changes = [
        Row.of_kind(RowKind.UPDATE_BEFORE, *ROWS[1]),
        Row.of_kind(RowKind.UPDATE_AFTER, 1, "updated", decimal.Decimal("1.50"), True, None),
        Row.of_kind(RowKind.DELETE, 2, None, None, None, None),
        Row.of_kind(RowKind.INSERT, 7, "new", None, None, datetime.date(2024, 1, 1)),
    ]
    env = environment()
    env.from_collection(changes).set_parallelism(1).sink_to(sink.sink()).set_parallelism(1)
    env.execute()
    assert {row[0]: row[1] for row in scanned(source_of(file))} == {
        0: "n0",
        1: "updated",
        3: "n3",
        4: "n4",
        5: "n5",
        7: "new",
    }

    columns = Schema.new_builder().column("id", "BIGINT").column("name", "STRING").build()
    rows = table_sink(described(file, schema=columns))
    assert rows.changelog_mode(ChangelogMode.all()) == ChangelogMode.insert_only()
    env = environment()
    env.from_collection([(8, "eight")]).sink_to(rows.sink())
    env.execute()
    assert scanned(source_of(file))[-1][:2] == (8, "eight")


def test_changes_are_refused_before_the_start_where_there_is_no_key(file: Path) -> None:
    columns = Schema.new_builder().column("id", "BIGINT").column("name", "STRING").build()
    env = environment()
    changes = env.from_collection([Row.of_kind(RowKind.DELETE, 1, "a")])
    changes.sink_to(table_sink(described(file, schema=columns)).sink())
    with pytest.raises(ConfigError, match=r"accepts insertions only; got changes"):
        env.execute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "jdbc:oracle:thin:@db"}, "is not of a known database"),
        ({"url": "jdbc:postgresql://db/shop?password=secret-7"}, r"password=\*\*\*' contains a password"),
        ({"scan.partition.lower-bound": "1"}, "need each other; got one; expected both, or none"),
        (
            {"scan.partition.column": "no"},
            "'no'.*the physical columns of table orders, which is partitioned by it",
        ),
        ({"scan.partition.num": "3"}, "partitions need a partition_column"),
        ({"lookup.cache": "PARTIAL"}, "expected 'lookup.partial-cache.max-rows' with it"),
        ({"sink.mod": "staged"}, "unknown option 'sink.mod' .* did you mean 'sink.mode'"),
    ],
    ids=["database", "password", "one bound", "partition column", "partitions", "cache", "misspelt"],
)
def test_options_that_make_no_sense_are_refused(file: Path, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        table_source(described(file, options))
    assert "secret-7" not in str(refused.value)


def test_a_position_that_is_no_column_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="'lsn' is in the key or the position, but not in the columns"):
        table_sink(described(file, {"sink.position": "lsn"}))
    made = table_sink(described(file, {"sink.position": "amount"}))
    assert made.changelog_mode(ChangelogMode.all()) == ChangelogMode.upsert(), "a delete needs its position"


def test_a_password_is_in_no_repr(file: Path) -> None:
    options = {"url": "jdbc:postgresql://db/shop", "username": "ada", "password": "secret-7"}
    assert "secret-7" not in repr(source_of(file, options))
    assert "secret-7" not in repr(source_of(file, options).scan())
    assert "secret-7" not in repr(source_of(file, options).lookup(("id",)))
    sink = table_sink(described(file, options))
    assert "secret-7" not in repr(sink) + repr(sink.sink())


def test_a_value_that_is_not_of_the_type_names_the_row(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE orders SET day = 'soon' WHERE id = 3")
    with pytest.raises(TidegateError) as failed:
        scanned(source_of(file))
    assert "row 3 of range 'all' cannot be read: column 'day' cannot be read as DATE; got 'soon'" in "".join(
        traceback.format_exception(failed.value)
    )
