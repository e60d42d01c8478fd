"""Keys of every type in a real Postgres server: the first load and the log meet at each of them."""

from __future__ import annotations

import pytest

from tests.integration.cdc.pipeline import Database, Pipeline, Replica, source
from tidegate.cdc.postgres.literals import literal
from tidegate.errors import ConfigError

pytestmark = pytest.mark.service

KEYS = {
    "text": (
        "text",
        [
            "",
            "a",
            "B",
            "b",
            "ä",
            "é",
            "zz",
            "Z",
            "%",
            "a b",
            "tab\there",
            "back\\slash",
            "quote's",
            "\U0001f600",
            "\uffff",
        ],
    ),
    "varchar": ("varchar(10)", ["a", "B", "Z", "ä"]),
    "char": ("char(3)", ["a", "B", "abc"]),
    "domain-of-text": ("label", ["a", "B", "Z", "z"]),
    "uuid": (
        "uuid",
        [
            "ffffffff-9c0b-4ef8-bb6d-6bb9bd380a11",
            "00000000-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ],
    ),
    "numeric": ("numeric", ["-1.5", "2", "10", "10.25", "Infinity", "-Infinity"]),
    "long-numeric": ("numeric(50, 2)", ["-1", "2", "10", "9"]),
    "date": ("date", ["2024-01-02", "0001-01-01", "9999-12-31", "2024-01-10"]),
    "timestamptz": ("timestamptz", ["2024-01-02 10:00+05", "2024-01-02 06:00+00", "1999-01-01 00:00+00"]),
    "time": ("time", ["10:00", "09:59:59.5", "23:59"]),
    "bytea": ("bytea", ["\\x00", "\\xff", "\\x", "\\x0001"]),
    "bool": ("boolean", ["t", "f"]),
    "float": ("float8", ["-1.5", "1e300", "3", "Infinity", "-Infinity"]),
    "real": ("real", ["0.1", "0.2", "16777216"]),
    "enum": ("mood", ["sad", "ok", "happy"]),
    "domain-of-int": ("positive", ["9", "10", "100"]),
    "interval": ("interval", ["1 day", "90 minutes", "1 year"]),
    "inet": ("inet", ["10.0.0.9", "10.0.0.10", "9.0.0.1"]),
    "range": ("int4range", ["[1,5)", "[10,20)", "[2,3)"]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type_load_completely_and_join_with_the_log(database: Database, kind: str) -> None:
    """Interrupted in every place, so that the bounds of ranges are keys of the type."""
    type, keys = KEYS[kind]
    database.run(
        "create domain label as text",
        "create domain positive as int check (value > 0)",
        "create type mood as enum ('sad', 'ok', 'happy')",
        f"create table t (k {type} primary key, v int)",
    )
    for key in keys:
        database.run(f"insert into t values ({literal(key)}, 0)")
    replica, at = Replica(["k"]), None
    for _ in keys:
        with Pipeline(source(database), parallelism=1, limit=1, at=at) as pipeline:
            pipeline.until_records_or_log()
            replica.take(pipeline)
            at = pipeline.checkpoint()
        database.run("update t set v = v + 1")
    with Pipeline(source(database), at=at) as pipeline:
        pipeline.catch_up(database)
        replica.take(pipeline)
    assert [row["v"] for row in replica.rows.values()] == [len(keys)] * len(keys)
    assert len(replica.rows) == len(keys)


def test_a_key_of_several_columns_in_another_order_than_the_table_s(database: Database) -> None:
    database.run(
        "create table t (v int, b text, a int, primary key (a, b))",
        "insert into t select 0, chr(65 + i % 26), i / 7 from generate_series(0, 40) i on conflict do nothing",
    )
    replica = Replica(["a", "b"])
    with Pipeline(source(database, chunk_rows=5), limit=3) as pipeline:
        while pipeline.loading:
            pipeline.round()
            database.run("update t set v = v + 1")
        pipeline.catch_up(database)
        replica.take(pipeline)
    want = {(a, b): v for a, b, v in database.rows("select a, b, v from t")}
    assert {key: row["v"] for key, row in replica.rows.items()} == want


def test_a_key_without_an_order_is_refused(database: Database) -> None:
    database.run("create table t (k int[] primary key)")
    with pytest.raises(ConfigError, match=r"key column 'k' of table .* cannot be ordered"):
        Pipeline(source(database))


def test_a_load_alone_ends_with_the_tables(database: Database) -> None:
    database.run("create table t (id int primary key)", "insert into t select generate_series(1, 7)")
    with Pipeline(source(database, start="initial-only")) as pipeline:
        pipeline.run_to_the_end()
        assert sorted(pipeline.take()) == [f"+I id={number}" for number in range(1, 8)]
