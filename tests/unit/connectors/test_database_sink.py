"""What the database sink makes of changes and positions, on SQLite, without a server."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.unit.connectors.database_table import ADD, UA, UB, D, Table, batch, table as table
from tidegate.connectors.database.writer import decode_work
from tidegate.elements import RowKind
from tidegate.errors import FencedError
from tidegate.ids import CheckpointId
from tidegate.row import Row
from tidegate.twophase.spi import CommitAnswer, Retry
from tidegate.unchanged import UNCHANGED


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
        r"row with key \{'id': 7\} lacks values of columns, and the row does not exist", answer.reason
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
