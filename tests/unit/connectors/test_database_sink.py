"""What the database sink makes of changes, positions and bad input, on SQLite, without a server."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.connectors.database import Database, DatabaseSink, DatabaseSinkOptions
from tidegate.connectors.database.writer import decode_work
from tidegate.connectors.spi import JobFacts
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, FencedError, RecordError, StateFormatError
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.row import Row
from tidegate.twophase.spi import (
    CommitAnswer,
    Committable,
    CommitterContext,
    Retry,
    SinkWriter,
    WriterContext,
)
from tidegate.unchanged import UNCHANGED

ADD, UB, UA, D = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
UID = OperatorUid("sink")
JOB = JobFacts(PipelineId("orders"), 1_000, 60_000, None, UID)
ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, note TEXT, at INTEGER NOT NULL)"


class Table:
    """A table of SQLite, and a sink for it used as a job does."""

    def __init__(self, directory: Path, ddl: str = ORDERS) -> None:
        self.file = directory / "shop.db"
        self.database = Database(f"sqlite:{self.file}")
        self.do(ddl)

    def do(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as database, database:
            return database.execute(sql).fetchall()

    def rows(self) -> list[Any]:
        return self.do("SELECT * FROM orders ORDER BY 1")

    def sink(self, **more: Any) -> DatabaseSink:
        options = DatabaseSinkOptions(
            **{name: more.pop(name) for name in ("mode", "buffer_rows") if name in more}
        )
        return DatabaseSink(self.database, "orders", options=options, **more)

    def writer(self, sink: DatabaseSink, attempt: str = "a", term: int = 1) -> SinkWriter:
        return sink.open_writer(
            WriterContext(
                *(PipelineId("orders"), UID, Subtask("sink", 0), 1, LineageId("1f"), Branch(0), attempt, ()),
                clock=ManualClock(),
                term=FencingTerm(term),
            )
        )

    def committer(self, sink: DatabaseSink, term: int = 1) -> Any:
        context = CommitterContext(
            PipelineId("orders"), UID, LineageId("1f"), SYSTEM_CLOCK, term=FencingTerm(term)
        )
        return closing(sink.open_committer(context))

    def epoch(
        self, sink: DatabaseSink, changes: list[tuple[RowKind, Any]], checkpoint: int = 1
    ) -> Committable | None:
        with closing(self.writer(sink)) as writer:
            for change in changes:
                writer.write(batch([change]))
            done = writer.prepare(CheckpointId(checkpoint))
        return None if done is None else Committable(UID, 0, CheckpointId(checkpoint), *done)

    def commit(self, sink: DatabaseSink, *work: Committable | None) -> list[Any]:
        with self.committer(sink) as committer:
            return list(committer.commit([each for each in work if each is not None]))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def batch(changes: list[tuple[RowKind, Any]]) -> Batch:
    return Batch([row for _, row in changes], kinds=[kind for kind, _ in changes])


def test_the_last_change_of_each_key_is_what_the_table_has(table: Table) -> None:
    sink = table.sink(key=("id",))
    table.commit(
        sink, table.epoch(sink, [(ADD, (1, "a", None, 1)), (ADD, (2, "b", None, 1)), (ADD, (3, "c", "x", 1))])
    )
    changes = [
        (UB, (1, "a", None, 1)),
        (UA, (1, "a2", "new", 2)),
        (D, (2, None, None, None)),
        (D, (3, "c", "x", 1)),
        (ADD, (3, "again", None, 3)),
        (D, (9, None, None, None)),
    ]
    table.commit(sink, table.epoch(sink, changes, 2))

    assert table.rows() == [(1, "a2", "new", 2), (3, "again", None, 3)]


def test_columns_that_did_not_change_stay_as_they_are(table: Table) -> None:
    sink = table.sink(key=("id",))
    table.do("INSERT INTO orders VALUES (1, 'a', 'long text', 1), (2, 'b', 'longer', 1)")
    changes = [
        (UA, (1, "a2", UNCHANGED, 2)),
        (UA, (1, UNCHANGED, UNCHANGED, 3)),
        (UA, (2, UNCHANGED, UNCHANGED, UNCHANGED)),
        (ADD, (3, "c", "given", 1)),
        (UA, (3, "c2", UNCHANGED, 2)),
    ]
    assert table.commit(sink, table.epoch(sink, changes)) == [CommitAnswer.COMMITTED]

    assert table.rows() == [(1, "a2", "long text", 3), (2, "b", "longer", 1), (3, "c2", "given", 2)]


def test_an_update_of_some_columns_of_a_row_that_is_not_there_is_not_lost_silently(table: Table) -> None:
    sink = table.sink(key=("id",))
    (answer,) = table.commit(sink, table.epoch(sink, [(UA, (7, "a", UNCHANGED, 1))]))

    assert isinstance(answer, Retry)
    assert re.search(
        r"row with key \{'id': 7\} does not say all of its columns, and there is no such row", answer.reason
    )
    table.do("INSERT INTO orders VALUES (7, 'old', 'kept', 0)")


def test_a_delete_and_an_update_of_some_columns_of_the_same_key_are_applied_in_order(table: Table) -> None:
    sink = table.sink(key=("id",))
    table.do("INSERT INTO orders VALUES (1, 'a', 'text', 1)")
    work = table.epoch(sink, [(D, (1, None, None, None)), (UA, (1, "b", UNCHANGED, 2))])
    assert work is not None
    assert len(decode_work(work.payload).chunks) == 2
    (answer,) = table.commit(sink, work)

    assert isinstance(answer, Retry), "there is no value for the column"


def test_an_epoch_in_many_pieces_is_applied_in_their_order(table: Table) -> None:
    sink = table.sink(key=("id",), buffer_rows=2)
    changes = [(UA, (number % 3, f"name {number}", None, number)) for number in range(20)]
    assert table.commit(sink, table.epoch(sink, changes)) == [CommitAnswer.COMMITTED]

    assert table.rows() == [(0, "name 18", None, 18), (1, "name 19", None, 19), (2, "name 17", None, 17)]
    assert table.do("SELECT count(*) FROM tidegate_work WHERE NOT committed") == [(0,)]
    (stage,) = table.do(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tidegate_stage_%'"
    )
    assert table.do(f"SELECT count(*) FROM {stage[0]}") == [(0,)]


def test_a_table_of_keys_alone_takes_what_is_there_already(tmp_path: Path) -> None:
    table = Table(tmp_path, "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY)")
    sink = table.sink(key=("id",))
    table.do("INSERT INTO orders VALUES (1)")
    table.commit(sink, table.epoch(sink, [(ADD, (1,)), (ADD, (2,)), (UA, (1,))]))

    assert table.rows() == [(1,), (2,)]


def test_an_epoch_of_nothing_but_rows_before_their_update_is_nothing(table: Table) -> None:
    assert table.epoch(table.sink(key=("id",)), [(UB, (1, "a", None, 1))]) is None


def test_records_are_tuples_lists_rows_and_dictionaries(table: Table) -> None:
    sink = table.sink()
    named = {"at": 4, "id": 4, "note": "n", "name": "d"}
    records = [
        (1, "a", None, 1),
        [2, "b", None, 2],
        Row(3, "c", None, 3),
        named,
        Row(at=5, id=5, note=None, name="e"),
    ]
    table.commit(sink, table.epoch(sink, [(ADD, record) for record in records]))

    assert [row[1] for row in table.rows()] == ["a", "b", "c", "d", "e"]
    assert table.rows()[3] == (4, "d", "n", 4)


BY_POSITION = {"key": ("id",), "position": ("at",)}


def test_a_write_with_an_older_position_does_nothing(table: Table) -> None:
    sink = table.sink(**BY_POSITION)
    table.epoch(sink, [(ADD, (1, "new", None, 5))])
    table.epoch(sink, [(UA, (1, "old", None, 4)), (D, (1, None, None, 3))])
    assert table.rows() == [(1, "new", None, 5)]

    table.epoch(sink, [(UA, (1, "same position, later", UNCHANGED, 5))])
    assert table.rows() == [(1, "same position, later", None, 5)]


def test_a_deleted_row_is_not_brought_back_by_a_replay(table: Table) -> None:
    sink = table.sink(**BY_POSITION)
    history = [(ADD, (1, "a", None, 1)), (UA, (1, "b", None, 2)), (D, (1, "b", None, 3))]
    for change in history:
        table.epoch(sink, [change])
    for change in history:
        table.epoch(sink, [change])
        assert table.rows() == []

    table.epoch(sink, [(ADD, (1, "reborn", None, 4))])
    for change in history:
        table.epoch(sink, [change])
    assert table.rows() == [(1, "reborn", None, 4)]


def test_positions_of_deleted_keys_are_forgotten_when_their_checkpoint_is_settled(table: Table) -> None:
    sink = table.sink(**BY_POSITION)
    work = table.epoch(sink, [(D, (1, None, None, 3))])
    (gone,) = table.do("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tidegate_gone_%'")
    assert table.do(f"SELECT id, at FROM {gone[0]}") == [(1, 3)]
    assert table.commit(sink, work) == [CommitAnswer.COMMITTED]
    assert table.do(f"SELECT * FROM {gone[0]}") == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([ADD, UA, D])), min_size=1, max_size=12),
    st.data(),
)
def test_a_replay_from_anywhere_ends_in_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, keys: list[tuple[int, RowKind]], data: st.DataObject
) -> None:
    table = Table(tmp_path_factory.mktemp("replayed"))
    sink = table.sink(**BY_POSITION)
    changes = [(kind, (key, f"name {at}", None, at)) for at, (key, kind) in enumerate(keys)]
    expected = {row[0]: None if kind is D else row for kind, row in changes}
    for end in sorted(data.draw(st.lists(st.integers(1, len(changes)), max_size=3))):
        start = data.draw(st.integers(0, end - 1))
        table.epoch(sink, changes[start:end])
    before = table.rows()
    table.epoch(sink, changes)

    assert table.rows() == sorted(row for row in expected.values() if row is not None)
    assert all(row[3] <= {each[0]: each for each in table.rows()}.get(row[0], row)[3] for row in before)


def test_a_writer_of_an_older_owner_writes_nothing_more_by_position(table: Table) -> None:
    sink = table.sink(**BY_POSITION)
    with closing(table.writer(sink)) as old:
        old.write(batch([(ADD, (1, "old", None, 1))]))
        with table.committer(sink, term=2) as committer:
            committer.fence()
        with pytest.raises(
            FencedError, match=r"operator 'orders\.sink' has a newer owner; this writer stops"
        ):
            old.prepare(CheckpointId(1))
    with pytest.raises(FencedError, match="newer owner"):
        table.writer(sink)
    assert table.rows() == []


def test_committed_work_is_remembered_and_what_is_far_too_old_is_unknown(table: Table) -> None:
    sink = table.sink()
    first = table.epoch(sink, [(ADD, (1, "a", None, 1))])
    lost = table.epoch(sink, [(ADD, (9, "z", None, 9))], 2)
    assert table.commit(sink, first) == [CommitAnswer.COMMITTED]
    with table.committer(sink) as committer:
        assert committer.abort_except([]) == 1
    for checkpoint in (3, 64 * 20):
        table.commit(sink, table.epoch(sink, [(ADD, (checkpoint, "b", None, 1))], checkpoint))

    assert table.do("SELECT checkpoint FROM tidegate_work") == [(64 * 20,)]
    assert table.commit(sink, first) == [CommitAnswer.UNKNOWN]
    assert table.commit(sink, lost) == [CommitAnswer.UNKNOWN]


def test_after_a_refusal_newer_work_of_the_subtask_waits(table: Table) -> None:
    sink = table.sink(key=("id",))
    bad = table.epoch(sink, [(UA, (1, "a", UNCHANGED, 1))], 1)
    good = table.epoch(sink, [(UA, (2, "b", None, 1))], 2)
    answers = table.commit(sink, good, bad)

    assert all(isinstance(answer, Retry) for answer in answers)
    assert table.rows() == []


@pytest.mark.parametrize(
    ("record", "kind", "message"),
    [
        (
            (1, "a"),
            ADD,
            r"table orders in sqlite:\S+: a record has 2 values; expected 4: id, name, note, at; the record is \(1, 'a'\)",
        ),
        (
            (1, None, None, 1),
            ADD,
            r"column 'name' is None; expected a value, since the column is NOT NULL or a key",
        ),
        ((None, None, None, 1), D, r"column 'id' is None; expected a value"),
        (
            {"id": 1, "name": "a", "note": None},
            ADD,
            r"a record has no field 'at'; expected id, name, note, at",
        ),
        (
            {"id": 1, "name": "a", "note": None, "at": 1, "by": 2},
            ADD,
            r"has a field 'by', which is not written",
        ),
        ("text", ADD, r"is of class str; expected a tuple, a Row or a dictionary"),
    ],
    ids=["too few values", "null", "null in the key of a delete", "field missing", "unknown field", "no row"],
)
def test_a_record_that_does_not_fit_is_named(table: Table, record: Any, kind: RowKind, message: str) -> None:
    with closing(table.writer(table.sink(key=("id",)))) as writer, pytest.raises(RecordError, match=message):
        writer.write(batch([(kind, record)]))


def test_changes_are_refused_without_a_key(table: Table) -> None:
    with (
        closing(table.writer(table.sink())) as writer,
        pytest.raises(
            RecordError, match=r"a record is a change of kind \+U; expected insertions; give the sink a key"
        ),
    ):
        writer.write(batch([(UA, (1, "a", None, 1))]))
    assert table.sink().takes == "insert-only"
    assert table.sink(key=("id",)).takes == "any"


def test_a_value_that_sqlite_cannot_hold_is_named(table: Table) -> None:
    with closing(table.writer(table.sink())) as writer:
        writer.write(batch([(ADD, (1, {2}, None, 1))]))
        with pytest.raises(RecordError, match=r"a value of class set cannot be stored in SQLite; got \{2\}"):
            writer.prepare(CheckpointId(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"table": "order"},
            r"table order does not exist in sqlite:\S+; create it, or correct its name, whose case counts",
        ),
        ({"columns": ("id", "naem")}, r"'naem'.*the columns of table orders"),
        (
            {"key": ("name",)},
            r"has no unique index of the key \(name\); got id; create one, or use another key",
        ),
        (
            {"columns": ("id", "note")},
            r"column 'name' of table orders in \S+ is NOT NULL without a default, and the sink does not",
        ),
    ],
    ids=["no table", "unknown column", "no unique index", "column left out"],
)
def test_a_table_that_does_not_fit_is_refused_before_the_start(
    table: Table, arguments: dict[str, Any], message: str
) -> None:
    sink = DatabaseSink(table.database, **{"table": "orders", **arguments})
    with pytest.raises(ConfigError, match=message):
        list(sink.preflight(JOB))
    with pytest.raises(ConfigError, match=message):
        table.writer(sink)


def test_a_check_of_a_table_that_fits_says_what_it_found(tmp_path: Path) -> None:
    table = Table(
        tmp_path,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, mail TEXT UNIQUE, of INTEGER REFERENCES orders (id))",
    )
    found = {(each.subject, each.verdict) for each in table.sink(key=("id",)).preflight(JOB)}

    assert found == {("database", "ok"), ("table", "ok"), ("table", "warning"), ("constraints", "warning")}
    assert table.do("SELECT name FROM sqlite_master WHERE name LIKE 'tidegate%'") == [], (
        "a check leaves nothing behind"
    )


def test_a_generated_column_is_not_written(tmp_path: Path) -> None:
    table = Table(
        tmp_path,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, twice INTEGER GENERATED ALWAYS AS (id * 2) STORED)",
    )
    sink = table.sink()
    table.commit(sink, table.epoch(sink, [(ADD, (4,))]))
    assert table.rows() == [(4, 8)]
    with pytest.raises(
        ConfigError, match=r"column 'twice' of table orders in .* is generated by the database; leave it out"
    ):
        table.writer(table.sink(columns=("id", "twice")))


POSTGRES = Database("postgresql://db/shop")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Database("mysql://db/shop"),
            r"database url 'mysql://db/shop' is of no known database; expected postgresql://",
        ),
        (
            lambda: Database("postgresql://ada:pw@db/shop"),
            r"'postgresql://ada:\*\*\*@db/shop' contains a password; .* argument password",
        ),
        (
            lambda: Database("postgresql://db/s?user=a&password=pw"),
            r"user=a&password=\*\*\*' contains a password",
        ),
        (
            lambda: Database("sqlite:x", lock_timeout_ms=0),
            "database lock_timeout_ms is 0; expected 1 or more",
        ),
        (
            lambda: DatabaseSink(POSTGRES, "t", key="id"),
            r"database sink key is 'id'; expected a tuple of names",
        ),
        (
            lambda: DatabaseSink(POSTGRES, "t", ("a",), ("id",)),
            r"'id' is in the key or the position, but not in the columns; got a",
        ),
        (
            lambda: DatabaseSink(POSTGRES, "t", position=("a",)),
            "a position needs a key, and other columns than those of the key",
        ),
        (lambda: sink_in("positions", key=("id",)), "mode 'positions' needs the columns of the position"),
        (lambda: sink_in("staged", key=("id",), position=("a",)), "a position is not used by mode 'staged'"),
        (
            lambda: sink_in("prepared", key=("id",)),
            "mode 'prepared' is for insertions; .* use 'staged', or a position",
        ),
        (
            lambda: sink_in("2pc"),
            "database sink mode is '2pc'; expected one of positions, staged",
        ),
        (
            lambda: branching("no"),
            "database sink on_branch is 'no'; expected 'refuse' or 'append'",
        ),
    ],
    ids=[
        *(
            "unknown database",
            "password in the url",
            "password as a parameter",
            "timeout",
            "names as text",
            "key not written",
        ),
        *(
            "position without key",
            "positions without position",
            "position that is not used",
            "prepared with a key",
        ),
        *("unknown mode", "unknown answer to branches"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def branching(answer: Any) -> DatabaseSinkOptions:
    return DatabaseSinkOptions(on_branch=answer)


def sink_in(mode: Any, **more: Any) -> DatabaseSink:
    return DatabaseSink(POSTGRES, "t", options=DatabaseSinkOptions(mode=mode), **more)


def test_a_password_is_in_no_repr_and_no_payload(table: Table) -> None:
    database = Database("postgresql://db/shop", "ada", "secret-7")
    assert "secret-7" not in repr(DatabaseSink(database, "orders"))
    sink = table.sink()
    work = table.epoch(sink, [(ADD, (1, "a", None, 1))])
    assert work is not None
    assert str(table.file).encode() not in work.payload


def test_a_payload_of_another_version_is_refused(table: Table) -> None:
    sink = table.sink()
    work = table.epoch(sink, [(ADD, (1, "a", None, 1))])
    assert work is not None
    newer = msgspec.structs.replace(work, payload=msgspec.msgpack.encode({"v": 2}))
    with pytest.raises(StateFormatError, match="expected version 1; run the version that wrote it"):
        table.commit(sink, newer)
    with pytest.raises(StateFormatError, match="expected version 1"), table.committer(sink) as committer:
        committer.abort_except([newer])


def test_restoring_an_older_checkpoint_is_allowed_where_replayed_rows_replace_others() -> None:
    assert DatabaseSink(POSTGRES, "t").on_branch == "refuse"
    assert DatabaseSink(POSTGRES, "t", key=("id",)).on_branch == "append"
    assert DatabaseSink(POSTGRES, "t", options=DatabaseSinkOptions(on_branch="append")).on_branch == "append"
    assert (
        DatabaseSink(POSTGRES, "t", options=DatabaseSinkOptions(mode="at-least-once")).delivery
        == "at-least-once"
    )


def test_a_sink_that_commits_nothing_has_no_tables_of_its_own(table: Table) -> None:
    sink = table.sink(key=("id",), mode="at-least-once")
    assert table.epoch(sink, [(ADD, (1, "a", None, 1))]) is None
    with table.committer(sink) as committer:
        committer.claim()
        assert committer.abort_except([]) == 0
        committer.fence()
    assert table.rows() == [(1, "a", None, 1)]
    assert table.do("SELECT name FROM sqlite_master WHERE name LIKE 'tidegate%'") == []
