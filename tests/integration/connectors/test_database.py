"""What the database connector does on a real Postgres when things are not as they should be, and in jobs."""

from __future__ import annotations

import datetime
import decimal
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import psycopg
import pytest

from tests.waiting import PATIENCE_S, until
from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.connectors.database import Database, DatabaseSink, DatabaseSinkOptions, DatabaseSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import JobFacts
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, RecordError, UnavailableError
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.row import Row
from tidegate.testing.services import PostgresService
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, Retry, WriterContext
from tidegate.unchanged import UNCHANGED

pytestmark = pytest.mark.service

UID = OperatorUid("sink")
WRITER = WriterContext(
    *(PipelineId("orders"), UID, Subtask("sink", 0), 1, LineageId("1f"), Branch(0), "a", ()),
    clock=SYSTEM_CLOCK,
)
COMMITTER = CommitterContext(PipelineId("orders"), UID, LineageId("1f"), SYSTEM_CLOCK)
JOB = JobFacts(PipelineId("orders"), 1_000, 60_000, None, UID)
STAGED = DatabaseSinkOptions(mode="staged")
PREPARED = DatabaseSinkOptions(mode="prepared")


class Shop:
    """A schema of its own, where the tables of the sink are as well."""

    def __init__(self, postgres: PostgresService) -> None:
        self.dsn = postgres.dsn
        self.schema = f"s_{new_id(8)}"
        self.database = Database(postgres.dsn, lock_timeout_ms=300)
        self.do(f"CREATE SCHEMA {self.schema}")

    def do(self, sql: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"SET search_path = {self.schema}".encode())
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def sink(self, table: str, **more: Any) -> DatabaseSink:
        return DatabaseSink(self.database, f"{self.schema}.{table}", **more)

    @contextmanager
    def holding(self, sql: str) -> Iterator[None]:
        """A transaction that holds the locks of a statement."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"SET search_path = {self.schema}; {sql}".encode())
            yield
            connection.rollback()


@pytest.fixture
def shop(postgres: PostgresService) -> Shop:
    return Shop(postgres)


@pytest.fixture(autouse=True)
def carried_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import this module."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def work_of(sink: DatabaseSink, checkpoint: int, *changes: tuple[RowKind, Any], **who: Any) -> Committable:
    with closing(sink.open_writer(replace(WRITER, **who))) as writer:
        writer.write(Batch([row for _, row in changes], kinds=[kind for kind, _ in changes]))
        done = writer.prepare(CheckpointId(checkpoint))
    assert done is not None
    return Committable(UID, 0, CheckpointId(checkpoint), *done)


def commit(sink: DatabaseSink, *work: Committable) -> list[Any]:
    with closing(sink.open_committer(COMMITTER)) as committer:
        return list(committer.commit(work))


ALL_TYPES = """
CREATE TABLE every (
    id bigint PRIMARY KEY, flag boolean, small smallint, real real, double double precision, money numeric(10, 2), name text,
    code char(3), raw bytea, day date, clock time, stamp timestamp, moment timestamptz, spell interval, doc jsonb, list int[],
    who uuid)"""
EVERY = (
    *(
        1,
        True,
        7,
        0.5,
        1.25,
        decimal.Decimal("12.30"),
        "tab\t, newline\n, \\N and 'quote'",
        "abc",
        b"\x00\xff",
    ),
    *(datetime.date(2024, 5, 1), datetime.time(1, 2, 3, 4), datetime.datetime(2024, 5, 1, 2, 3)),
    *(datetime.datetime(2024, 5, 1, 2, 3, tzinfo=datetime.UTC), datetime.timedelta(days=1, seconds=2)),
    *({"a": [1, None]}, [1, 2, 3], uuid.UUID(int=7)),
)


@pytest.mark.parametrize("mode", ["staged", "at-least-once"])
def test_values_of_every_type_are_written_and_read_as_they_were(shop: Shop, mode: Any) -> None:
    shop.do(ALL_TYPES)
    sink = shop.sink("every", key=("id",), options=DatabaseSinkOptions(mode=mode))
    empty = (2, *[None] * (len(EVERY) - 1))
    writer = sink.open_writer(WRITER)
    writer.write(Batch([EVERY, empty]))
    done = writer.prepare(CheckpointId(1))
    writer.close()
    if done is not None:
        commit(sink, Committable(UID, 0, CheckpointId(1), *done))

    assert [tuple(row) for row in shop.do("SELECT * FROM every ORDER BY id")] == [EVERY, empty]


def test_a_value_that_the_column_cannot_hold_names_table_column_and_record(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, amount numeric(4, 2))")
    with closing(shop.sink("orders").open_writer(WRITER)) as writer:
        writer.write(Batch([(1, decimal.Decimal("1.00")), (2, "much")]))
        message = r"orders in \S+: invalid input syntax for type numeric: \"much\".*column amount.*the record is .*'much'"
        with pytest.raises(RecordError, match=message):
            writer.prepare(CheckpointId(1))
        with pytest.raises(UnavailableError, match="rows of this epoch were lost with the connection"):
            writer.write(Batch([(3, decimal.Decimal(1))]))


def test_a_check_of_the_table_is_checked_before_anything_is_decided(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, amount int CHECK (amount IS NOT NULL AND amount > 0))")
    sink = shop.sink("orders", key=("id",))
    with pytest.raises(RecordError, match="violates check constraint"):
        work_of(sink, 1, (RowKind.INSERT, (1, -5)))
    work = work_of(
        sink, 2, (RowKind.INSERT, (1, 5)), (RowKind.DELETE, (2, None)), (RowKind.UPDATE_AFTER, (1, UNCHANGED))
    )
    assert commit(sink, work) == [CommitAnswer.COMMITTED]


def test_the_next_epoch_of_a_hot_key_does_not_wait_for_the_commit_of_the_one_before(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, amount int)")
    sink = shop.sink("orders", key=("id",))
    shop.do("INSERT INTO orders VALUES (1, 0)")
    with shop.holding("SELECT * FROM orders FOR UPDATE"):
        works = [
            work_of(sink, checkpoint, (RowKind.UPDATE_AFTER, (1, checkpoint))) for checkpoint in range(1, 6)
        ]
        (answer,) = commit(sink, works[0])
        assert isinstance(answer, Retry)
        assert "lock timeout" in answer.reason
    assert commit(sink, *works) == [CommitAnswer.COMMITTED] * 5
    assert shop.do("SELECT * FROM orders") == [(1, 5)]


def test_a_commit_whose_answer_was_lost_is_found_committed(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int)")
    sink = shop.sink("orders")
    work = work_of(sink, 1, (RowKind.INSERT, (1,)))
    together = threading.Barrier(4)

    def commits(answers: list[Any]) -> None:
        together.wait()
        answers += commit(sink, work)

    answers: list[Any] = []
    threads = [threading.Thread(target=commits, args=(answers,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.name for answer in answers) == ["ALREADY_COMMITTED"] * 3 + ["COMMITTED"]
    assert shop.do("SELECT * FROM orders") == [(1,)]


def test_a_prepared_transaction_that_was_rolled_back_is_aborted_and_not_taken_for_committed(
    shop: Shop,
) -> None:
    shop.do("CREATE TABLE orders (id int)")
    sink = shop.sink("orders", options=PREPARED)
    work = work_of(sink, 1, (RowKind.INSERT, (1,)))
    (gid,) = [gid for (gid,) in shop.do("SELECT gid FROM pg_prepared_xacts")]
    shop.do(f"ROLLBACK PREPARED '{gid}'")

    assert commit(sink, work) == [CommitAnswer.ABORTED]


def test_a_writer_that_prepares_while_it_is_fenced_leaves_nothing_prepared(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int)")
    sink = shop.sink("orders", options=PREPARED)
    with closing(sink.open_committer(replace(COMMITTER, term=FencingTerm(2)))) as committer:
        committer.abort_except([])
        late = work_of(sink, 1, (RowKind.INSERT, (1,)))
        committer.fence()
    assert shop.do("SELECT gid FROM pg_prepared_xacts") == []
    assert commit(sink, late) == [CommitAnswer.ABORTED]


def test_the_stage_of_a_table_that_was_altered_is_another_one(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int)")
    sink = shop.sink("orders")
    before = work_of(sink, 1, (RowKind.INSERT, (1,)))
    shop.do("ALTER TABLE orders ADD name text")
    after = work_of(sink, 2, (RowKind.INSERT, (2, "b")))

    assert commit(sink, before, after) == [CommitAnswer.COMMITTED] * 2
    assert shop.do("SELECT * FROM orders ORDER BY id") == [(1, None), (2, "b")]


def test_a_user_without_permission_gets_the_statements_for_one_who_has_it(shop: Shop) -> None:
    user = f"u_{new_id(8)}"
    shop.do(
        f"CREATE TABLE orders (id int PRIMARY KEY); CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA {shop.schema} TO {user}"
    )
    sink = DatabaseSink(
        Database(shop.dsn.replace("postgres@", ""), user), f"{shop.schema}.orders", key=("id",)
    )
    problems = [each.found for each in sink.preflight(JOB) if each.verdict == "problem"]
    assert problems == [
        f"{shop.schema}.orders cannot be written: permission denied for INSERT, SELECT, UPDATE, DELETE"
    ]
    with pytest.raises(
        ConfigError,
        match=r"permission denied for schema .*; the sink needs table .*; grant CREATE, or run: CREATE",
    ):
        sink.open_writer(WRITER)

    shop.do(f"GRANT ALL ON orders TO {user}")
    for statement in shop.sink("orders", key=("id",)).ddl():
        shop.do(statement)
    shop.do(f"GRANT ALL ON ALL TABLES IN SCHEMA {shop.schema} TO {user}")
    assert commit(sink, work_of(sink, 1, (RowKind.INSERT, (1,)))) == [CommitAnswer.COMMITTED]


def test_a_wrong_login_is_refused_without_the_password(postgres: PostgresService) -> None:
    database = Database(postgres.dsn.replace("postgres@", ""), "nobody_here", "secret-7")
    with pytest.raises(ConfigError, match='role "nobody_here" does not exist') as refused:
        database.connect()
    assert "secret-7" not in str(refused.value)


def test_a_server_that_is_away_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match=r"database 127\.0\.0\.1:1/shop: "):
        Database("postgresql://127.0.0.1:1/shop").connect()


def test_constraints_that_several_transactions_could_break_are_found_before_the_start(shop: Shop) -> None:
    shop.do("CREATE TABLE people (id int PRIMARY KEY)")
    shop.do("CREATE TABLE orders (id int UNIQUE, by int REFERENCES people)")
    found = {
        each.subject: each
        for each in shop.sink("orders", options=PREPARED).preflight(JOB)
        if each.verdict == "problem"
    }

    assert set(found) == {"constraints"}
    kinds = [
        each.verdict
        for each in shop.sink("orders", options=STAGED).preflight(JOB)
        if each.subject == "constraints"
    ]
    assert kinds == ["warning", "warning"]


def test_a_prepared_transaction_that_is_old_is_reported(shop: Shop) -> None:
    shop.do("CREATE TABLE orders (id int)")
    options = DatabaseSinkOptions(mode="prepared", prepared_alarm_ms=1)
    sink = shop.sink("orders", options=options)
    work = work_of(sink, 1, (RowKind.INSERT, (1,)))
    found = until(lambda: [each for each in sink.preflight(JOB) if each.subject == "prepared transactions"])

    assert found[0].found.startswith("1 prepared transactions of this sink are old")
    commit(sink, work)


TARGETS = ["inline-1", "embedded-2"]


@pytest.fixture(params=TARGETS)
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    target, _, parallelism = request.param.partition("-")
    return Env.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": parallelism,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "100 ms",
            "pipeline.progress": "off",
        }
    )


@pytest.mark.spec("003/TC-05", "003/DS-24", "003/DS-25")
def test_a_job_reads_a_table_and_writes_one_that_is_updated_and_one_that_is_added_to(
    shop: Shop, env: Env
) -> None:
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, customer text, amount int)")
    shop.do("INSERT INTO orders SELECT n, 'c' || n % 5, n % 7 FROM generate_series(1, 500) n")
    shop.do("CREATE TABLE totals (customer text PRIMARY KEY, amount int)")
    shop.do("CREATE TABLE history (customer text, amount int)")
    source = DatabaseSource(
        shop.database, f"{shop.schema}.orders", ("customer", "amount"), "id", partitions=3
    )
    sums = (
        env.from_source(source).key_by(lambda row: row[0]).reduce(lambda one, two: (one[0], one[1] + two[1]))
    )
    sums.sink_to(shop.sink("totals", key=("customer",)))
    sums.sink_to(shop.sink("history", options=PREPARED))
    env.execute("totals")

    expected = shop.do("SELECT customer, sum(amount)::int FROM orders GROUP BY 1 ORDER BY 1")
    assert shop.do("SELECT * FROM totals ORDER BY 1") == expected
    (count,) = shop.do("SELECT count(*), max(amount) FROM history")
    assert count == (500, max(amount for _, amount in expected))


def test_a_job_with_one_hot_key_goes_on_while_others_hold_its_row(shop: Shop, env: Env) -> None:
    shop.do("CREATE TABLE newest (id int PRIMARY KEY, number int); INSERT INTO newest VALUES (1, -1)")
    source = GeneratorSource(
        lambda number: Row.of_kind(RowKind.UPDATE_AFTER, 1, number), 3_000, rate_per_second=1_500
    )
    env.from_source(source).key_by(lambda row: row[0]).filter(lambda row: True).sink_to(
        shop.sink("newest", key=("id",))
    )
    with shop.holding("SELECT * FROM newest FOR UPDATE"):
        client = env.execute_async("hot")
        until(lambda: shop.do("SELECT to_regclass('tidegate_work')")[0][0], job=client)
        waiting = "SELECT count(*) FROM tidegate_work WHERE NOT committed"
        until(lambda: shop.do(waiting)[0][0] > 0, job=client)
    client.get_job_execution_result().result(PATIENCE_S)

    assert shop.do("SELECT * FROM newest") == [(1, 2_999)]
    assert shop.do("SELECT count(*) FROM tidegate_work WHERE NOT committed") == [(0,)]
