"""Changes of a real Postgres server: replica identities, keys, TOAST, schemas, partitions and filters."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import msgspec
import pytest

from tests.integration.cdc.pipeline import Database, Pipeline, source
from tests.waiting import until
from tidegate.cdc import Events
from tidegate.cdc.postgres import PostgresSource
from tidegate.cdc.postgres.split import Log, PostgresSplit
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError

pytestmark = pytest.mark.service


def following(database: Database, *tables: str, **options: Any) -> Pipeline:
    """A pipeline behind the first load."""
    pipeline = Pipeline(source(database, *tables, **options))
    pipeline.catch_up(database)
    pipeline.records.clear()
    return pipeline


def changes(pipeline: Pipeline, database: Database, *statements: str) -> list[str]:
    database.run(*statements)
    pipeline.catch_up(database)
    return pipeline.take()


def test_the_default_identity_gives_no_row_before_an_update_and_the_key_before_a_move(
    database: Database,
) -> None:
    database.run("create table t (id int primary key, name text)")
    with following(database) as pipeline:
        assert changes(
            pipeline,
            database,
            "insert into t values (1, 'ada')",
            "update t set name = 'eve'",
            "update t set id = 2",
            "update t set id = 3, name = null",
            "delete from t",
        ) == [
            "+I id=1 name=ada",
            "+U id=1 name=eve",
            "-D id=1 name=None",
            "+I id=2 name=eve",
            "-D id=2 name=None",
            "+I id=3 name=None",
            "-D id=3 name=None",
        ]


def test_full_identity_gives_whole_rows(database: Database) -> None:
    database.run("create table t (id int primary key, name text)", "alter table t replica identity full")
    with following(database) as pipeline:
        assert changes(
            pipeline,
            database,
            "insert into t values (1, 'ada')",
            "update t set name = 'eve'",
            "update t set id = 2",
            "delete from t",
        ) == [
            "+I id=1 name=ada",
            "-U id=1 name=ada",
            "+U id=1 name=eve",
            "-D id=1 name=eve",
            "+I id=2 name=eve",
            "-D id=2 name=eve",
        ]


def test_an_index_as_identity_is_the_key(database: Database) -> None:
    database.run(
        "create table t (id int primary key, email text not null unique, name text)",
        "alter table t replica identity using index t_email_key",
        "insert into t values (1, 'a@x', 'ada'), (2, 'b@x', 'bob'), (3, 'c@x', 'cid')",
    )
    with Pipeline(source(database)) as pipeline:
        pipeline.follow()
        assert sorted(pipeline.take()) == [
            "+I id=1 email=a@x name=ada",
            "+I id=2 email=b@x name=bob",
            "+I id=3 email=c@x name=cid",
        ]
        # The primary key may change without the log saying which it was before.
        assert changes(
            pipeline,
            database,
            "update t set id = 9, name = 'eve' where id = 1",
            "update t set email = 'z@x' where id = 2",
            "delete from t where id = 3",
        ) == [
            "+U id=9 email=a@x name=eve",
            "-D id=None email=b@x name=None",
            "+I id=2 email=z@x name=bob",
            "-D id=None email=c@x name=None",
        ]


def test_values_that_the_log_leaves_out_are_unchanged_or_taken_from_the_row_before(
    database: Database,
) -> None:
    database.run(
        "create table t (id int primary key, long text storage external, n int)",
        "insert into t values (1, repeat('x', 9000), 1)",
    )
    with following(database) as pipeline:
        assert changes(pipeline, database, "update t set n = 2", "update t set id = 2") == [
            "+U id=1 long=Unchanged.UNCHANGED n=2",
            "-D id=1 long=None n=None",
            "+I id=2 long=Unchanged.UNCHANGED n=2",
        ]
        whole = "x" * 9000
        assert changes(pipeline, database, "alter table t replica identity full", "update t set n = 3") == [
            f"-U id=2 long={whole} n=2",
            f"+U id=2 long={whole} n=3",
        ]


def test_a_long_key_that_does_not_move_is_no_move(database: Database) -> None:
    # The server sends a key that is stored apart from its row with every update.
    database.run(
        "create table t (id text storage external primary key, n int)",
        "insert into t values (repeat('k', 2500), 1)",
    )
    with following(database) as pipeline:
        database.run("update t set n = 2")
        pipeline.catch_up(database)
        assert [(kind, row.n) for kind, row in pipeline.records] == [(RowKind.UPDATE_AFTER, 2)]


def test_truncate_stops_rows_or_is_skipped_and_is_an_event(database: Database) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    at = following(database)
    with (
        at,
        pytest.raises(ConfigError, match=r"table postgres.public.t was truncated at .*on_truncate to 'skip'"),
    ):
        changes(at, database, "truncate t")
    database.drop_slots()
    with following(database, on_truncate="skip") as pipeline:
        assert changes(pipeline, database, "truncate t", "insert into t values (2)") == ["+I id=2"]
    database.drop_slots()
    events = PostgresSource(database.connect, ["public.t"], "s", deserializer=Events())
    with Pipeline(events) as pipeline:
        pipeline.follow()
        pipeline.records.clear()
        assert changes(pipeline, database, "truncate t") == ["t None None"]


def test_a_truncate_that_the_first_load_has_seen_is_left_out(database: Database) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1), (2)")
    with Pipeline(source(database), parallelism=1) as pipeline:
        database.run("truncate t", "insert into t values (3)")
        pipeline.catch_up(database)
        assert pipeline.take() == ["+I id=3"]


def test_a_truncate_between_two_chunks_stops_the_first_load(database: Database) -> None:
    database.run("create table t (id int primary key)", "insert into t select generate_series(1, 6)")
    with Pipeline(source(database), parallelism=1) as pipeline:
        pipeline.run(lambda: len(pipeline.records) == 2)
        with database.session() as other:
            # It gets the lock between the chunks.
            def truncate() -> None:
                other.execute(b"truncate t")
                other.commit()

            truncating = threading.Thread(target=truncate)
            truncating.start()
            until(lambda: database.rows("select from pg_locks where not granted"))
            pipeline.follow()
            truncating.join()
        with pytest.raises(ConfigError, match=r"truncated while it was loaded.*start with a first load"):
            pipeline.catch_up(database)


def test_a_table_is_not_emptied_between_the_snapshot_of_a_chunk_and_its_read(database: Database) -> None:
    database.run("create table t (id int primary key, v int)", "insert into t values (1, 1), (2, 2)")
    with Pipeline(source(database), parallelism=1) as pipeline, database.session() as other:
        pipeline.enumerator.request(0)
        other.execute("set lock_timeout = '100ms'")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute("alter table t alter v type bigint using v + 1")
        other.rollback()
        pipeline.follow()
        assert sorted(pipeline.take()) == ["+I id=1 v=1", "+I id=2 v=2"]


def test_a_chunk_waits_for_a_change_of_its_table(database: Database) -> None:
    database.run("create table t (id int primary key, v int)", "insert into t values (1, 1)")
    with Pipeline(source(database), parallelism=1) as pipeline, database.session() as other:
        other.execute("lock table t")
        for _ in range(20):
            assert not pipeline.round()
        other.commit()
        pipeline.follow()
        assert pipeline.take() == ["+I id=1 v=1"]


def test_columns_come_go_change_their_names_and_types_while_the_log_is_followed(database: Database) -> None:
    database.run("create table t (id int primary key, a int, b text)", "insert into t values (1, 1, 'x')")
    with following(database) as pipeline:
        assert changes(
            pipeline,
            database,
            "alter table t add column c text default 'new'",
            "update t set a = 2",
            "alter table t drop column b",
            "update t set a = 3",
            "alter table t rename column c to d",
            "update t set a = 4",
            "alter table t alter column a type numeric(5, 2)",
            "update t set a = 4.5",
            "create type mood as enum ('sad', 'happy')",
            "alter table t add column m mood",
            "update t set m = 'happy'",
            "alter type mood add value 'glad'",
            "update t set m = 'glad'",
        ) == [
            "+U id=1 a=2 b=x c=new",
            "+U id=1 a=3 c=new",
            "+U id=1 a=4 d=new",
            "+U id=1 a=4.50 d=new",
            "+U id=1 a=4.50 d=new m=happy",
            "+U id=1 a=4.50 d=new m=glad",
        ]


def test_a_key_that_was_renamed_before_the_log_is_read_is_still_the_key(database: Database) -> None:
    database.run("create table t (id int primary key, v int)", "insert into t values (1, 1), (2, 2), (3, 3)")
    with Pipeline(source(database)) as pipeline:
        database.run("update t set v = 20 where id = 2")
        pipeline.follow()
        pipeline.records.clear()
        assert changes(
            pipeline,
            database,
            "update t set id = 4 where id = 1",
            "alter table t rename column id to key",
            "update t set key = 5 where key = 2",
        ) == ["-D id=1 v=None", "+I id=4 v=1", "-D key=2 v=None", "+I key=5 v=20"]


def test_a_table_that_was_loaded_by_another_key_is_refused_while_the_log_has_what_was_loaded(
    database: Database,
) -> None:
    database.run(
        "create table t (id int primary key, a int not null, b int not null)",
        "insert into t values (1, 1, 1), (2, 2, 2), (3, 3, 3)",
    )
    with Pipeline(source(database)) as pipeline:
        pipeline.follow()
        at = pipeline.checkpoint()
    database.run("alter table t drop column id, add primary key (a, b)", "update t set a = 2 where b = 1")
    ahead = tuple(_complete_later(split) for split in at.splits)
    with (
        Pipeline(source(database), at=dataclasses.replace(at, splits=ahead)) as pipeline,
        pytest.raises(
            ConfigError, match="loaded by the key id, and its log has the key a, b; start with a first load"
        ),
    ):
        pipeline.catch_up(database)


def _complete_later(split: PostgresSplit) -> PostgresSplit:
    """As if the first load had ended later than it did."""
    assert isinstance(split.part, Log)
    return msgspec.structs.replace(split, part=msgspec.structs.replace(split.part, complete_at=1 << 62))


def test_partitions_are_read_as_their_table(database: Database) -> None:
    database.run(
        "create table t (id int, day date, v int, primary key (id, day)) partition by range (day)",
        "create table t_1 partition of t for values from ('2024-01-01') to ('2024-02-01')",
        "create table t_2 partition of t for values from ('2024-02-01') to ('2024-03-01')",
        "insert into t values (1, '2024-01-05', 1), (2, '2024-02-05', 2), (3, '2024-02-06', 3)",
    )
    with Pipeline(source(database, r"public\.t.*")) as pipeline:
        pipeline.follow()
        assert sorted(pipeline.take()) == [
            "+I id=1 day=2024-01-05 v=1",
            "+I id=2 day=2024-02-05 v=2",
            "+I id=3 day=2024-02-06 v=3",
        ]
        moved = changes(
            pipeline,
            database,
            "update t set day = '2024-02-07' where id = 1",
            "update t set v = 9 where id = 2",
        )
        assert moved == [
            "-D id=1 day=2024-01-05 v=None",
            "+I id=1 day=2024-02-07 v=1",
            "+U id=2 day=2024-02-05 v=9",
        ]


def test_a_row_filter_of_the_publication_holds_for_load_and_log(database: Database) -> None:
    database.run(
        "create table t (id int primary key, v int)",
        "alter table t replica identity full",
        "create publication s for table t where (v > 10 or v is null)",
        "insert into t values (1, 5), (2, 15), (3, null)",
    )
    with Pipeline(source(database)) as pipeline:
        pipeline.follow()
        assert sorted(pipeline.take()) == ["+I id=2 v=15", "+I id=3 v=None"]
        assert changes(
            pipeline, database, "update t set v = 11 where id = 1", "update t set v = 1 where id = 2"
        ) == [
            "+I id=1 v=11",
            "-D id=2 v=15",
        ]


def test_a_column_list_of_the_publication_holds_for_load_and_log(database: Database) -> None:
    database.run(
        "create table t (id int primary key, secret text, v int)",
        "create publication s for table t (id, v)",
        "insert into t values (1, 'x', 1)",
    )
    with Pipeline(source(database)) as pipeline:
        pipeline.follow()
        assert pipeline.take() == ["+I id=1 v=1"]
        assert changes(pipeline, database, "update t set v = 2, secret = 'y'") == ["+U id=1 v=2"]


@pytest.mark.parametrize(
    ("publication", "loaded", "changed"),
    [
        ("", "+I id=1 v=1", "+U id=1 v=2"),
        (
            "create publication s for table t with (publish_generated_columns = stored)",
            "+I id=1 v=1 twice=2",
            "+U id=1 v=2 twice=4",
        ),
    ],
    ids=["not-published", "published"],
)
def test_generated_columns_are_read_if_they_are_published(
    database: Database, publication: str, loaded: str, changed: str
) -> None:
    database.run(
        "create table t (id int primary key, v int, twice int generated always as (v * 2) stored)",
        *filter(None, [publication]),
        "insert into t values (1, 1)",
    )
    with Pipeline(source(database)) as pipeline:
        pipeline.follow()
        assert pipeline.take() == [loaded]
        assert changes(pipeline, database, "update t set v = 2") == [changed]


@pytest.mark.parametrize("streaming", [False, True], ids=["at-once", "streamed"])
def test_large_transactions_with_rolled_back_subtransactions(database: Database, streaming: bool) -> None:
    database.run(
        "create table t (id int primary key, v text)",
        "alter system set logical_decoding_work_mem = '64kB'",
        "select pg_reload_conf()",
    )
    try:
        with (
            following(database, streaming=streaming) as pipeline,
            database.session() as one,
            database.session() as two,
        ):
            fill = "insert into t select i, repeat('v', 100) from generate_series({}, {}) i"
            # The first rows, with the description of the table, are of a subtransaction that is rolled back.
            one.execute(b"savepoint a")
            one.execute(fill.format(1, 3000).encode())
            one.execute(b"rollback to savepoint a")
            one.execute(fill.format(10_001, 13_000).encode())
            two.execute(fill.format(20_001, 23_000).encode())
            one.execute(b"savepoint b")
            one.execute(fill.format(14_001, 17_000).encode())
            one.execute(b"savepoint c")
            one.execute(fill.format(17_001, 18_000).encode())
            one.execute(b"rollback to savepoint b")
            two.execute(fill.format(23_001, 24_000).encode())
            one.execute(fill.format(18_001, 18_002).encode())
            two.commit()
            one.commit()
            two.execute(fill.format(30_001, 33_000).encode())
            two.rollback()
            pipeline.catch_up(database)
            ids = [row.id for _, row in pipeline.records]
            assert ids == [*range(20_001, 24_001), *range(10_001, 13_001), 18_001, 18_002]
            streamed = database.rows(
                "select stream_txns from pg_stat_replication_slots where slot_name = 's'"
            )
            assert streaming == (streamed[0][0] > 0) or not streamed[0][0]
    finally:
        database.run("alter system reset logical_decoding_work_mem", "select pg_reload_conf()")


@pytest.mark.parametrize("streaming", [False, True], ids=["at-once", "streamed"])
def test_a_restart_inside_a_transaction_continues_behind_the_last_change(
    database: Database, streaming: bool
) -> None:
    database.run("create table t (id int primary key)")
    given = source(database, streaming=streaming)
    with Pipeline(given, parallelism=1) as pipeline:
        pipeline.follow()
        at = pipeline.checkpoint()
    database.run(
        "insert into t select generate_series(1, 60)", "insert into t select generate_series(61, 100)"
    )
    ids: list[int] = []
    while len(ids) < 100:
        with Pipeline(given, parallelism=1, limit=7, at=at) as pipeline:
            pipeline.until_records_or_log()
            ids += [row.id for _, row in pipeline.records]
            at = pipeline.checkpoint()
    assert ids == list(range(1, 101))


def test_only_settled_positions_are_confirmed(database: Database) -> None:
    database.run("create table t (id int primary key)")

    def confirmed() -> int:
        ((lsn,),) = database.rows(
            "select confirmed_flush_lsn - '0/0'::pg_lsn from pg_replication_slots where slot_name = 's'"
        )
        return int(lsn)

    with following(database) as pipeline:
        before = confirmed()
        changes(pipeline, database, "insert into t values (1)")
        at = pipeline.checkpoint()
        position = pipeline.position()
        changes(pipeline, database, "insert into t values (2)")
        assert confirmed() == before
        pipeline.settle(at)
        pipeline.run(lambda: confirmed() == position)
    again = Pipeline(source(database), at=at)
    with again:
        again.catch_up(database)
        assert again.take() == ["+I id=2"]


def test_a_value_that_cannot_be_read_names_table_and_column(database: Database) -> None:
    database.run("create table t (id int primary key, day date)")
    with (
        following(database) as pipeline,
        pytest.raises(RecordError, match=r"public.t, column 'day'.*special_dates"),
    ):
        changes(pipeline, database, "insert into t values (1, 'infinity')")


def test_tables_that_are_not_read_are_left_out_of_a_publication_of_all(database: Database) -> None:
    database.run(
        "create table t (id int primary key)",
        "create table other (id int)",
        "create publication s for all tables",
    )
    with following(database) as pipeline:
        assert changes(pipeline, database, "insert into other values (7)", "insert into t values (1)") == [
            "+I id=1"
        ]


def test_prepared_transactions_come_when_they_are_committed(database: Database) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    with following(database) as pipeline, database.session() as other:
        for number, end in ((2, "commit"), (3, "rollback")):
            other.execute(f"insert into t values ({number})".encode())
            other.execute(f"prepare transaction 'p{number}'".encode())
            other.autocommit = False
            assert changes(pipeline, database) == []
            other.rollback()
            other.autocommit = True
            other.execute(f"{end} prepared 'p{number}'".encode())
            other.autocommit = False
            assert changes(pipeline, database) == (["+I id=2"] if end == "commit" else [])
