"""Records that sources of changes emit."""

from __future__ import annotations

import datetime
import json
import pickle

import pytest

from tidegate.cdc import CapturedTable, ChangeOrigin, DebeziumRecords, Events, Op, Rows, TableId
from tidegate.cdc.records import ChangeDeserializer, RowsOfChange
from tidegate.cdc.table_rows import METADATA, TableRows
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError
from tidegate.logical_types import DataTypes
from tidegate.unchanged import UNCHANGED

USERS = CapturedTable(
    TableId("shop", "public", "users"),
    ("id", "name", "score"),
    ("id",),
    (DataTypes.INT(), DataTypes.STRING(), DataTypes.DOUBLE()),
)
ORIGIN = ChangeOrigin((7, 0), 1_500, "731", {"connector": "x"})
ADA, EVE = (1, "ada", 0.5), (1, "eve", 0.5)
INSERT: RowsOfChange = [(RowKind.INSERT, ADA)]
UPDATE: RowsOfChange = [(RowKind.UPDATE_BEFORE, ADA), (RowKind.UPDATE_AFTER, EVE)]
UPSERT: RowsOfChange = [(RowKind.UPDATE_AFTER, EVE)]
DELETE: RowsOfChange = [(RowKind.DELETE, ADA)]
MOVE: RowsOfChange = [(RowKind.DELETE, ADA), (RowKind.INSERT, (2, "ada", 0.5))]


@pytest.mark.parametrize(
    "deserializer", [Rows(), Events(), DebeziumRecords()], ids=lambda each: type(each).__name__
)
def test_deserializers_travel_to_readers(deserializer: ChangeDeserializer) -> None:
    travelled = pickle.loads(pickle.dumps(deserializer))
    assert travelled.loaded(USERS, [ADA]) == deserializer.loaded(USERS, [ADA])


def test_rows_have_the_kind_in_the_column_beside_them() -> None:
    found = [(str(kind), row.as_dict()) for row, kind in Rows().changed(USERS, UPDATE, ORIGIN)]
    assert found == [
        ("-U", {"id": 1, "name": "ada", "score": 0.5}),
        ("+U", {"id": 1, "name": "eve", "score": 0.5}),
    ]


@pytest.mark.spec("004/CDC-008", "004/CDC-009")
@pytest.mark.parametrize(
    ("rows", "ops", "befores"),
    [
        (INSERT, [Op.CREATE], [None]),
        (UPDATE, [Op.UPDATE], [ADA]),
        (UPSERT, [Op.UPDATE], [None]),
        (DELETE, [Op.DELETE], [ADA]),
        (MOVE, [Op.DELETE, Op.CREATE], [ADA, None]),
    ],
    ids=["insert", "update", "update without the row before", "delete", "another key"],
)
def test_events_are_whole(rows: RowsOfChange, ops: list[Op], befores: list[object]) -> None:
    events = [event for event, _ in Events().changed(USERS, rows, ORIGIN)]
    assert [event.op for event in events] == ops
    assert [event.before and tuple(event.before.values()) for event in events] == befores
    assert {(event.position, event.ts_ms, event.transaction) for event in events} == {((7, 0), 1_500, "731")}
    kinds = [(kind, tuple(row.values())) for event in events for kind, row in event.changes()]
    assert kinds == list(rows)


def test_envelopes_of_debezium_name_what_the_log_left_out_and_keep_nan() -> None:
    rows: RowsOfChange = [(RowKind.UPDATE_AFTER, (1, UNCHANGED, float("nan")))]
    ((text, kind),) = DebeziumRecords().changed(USERS, rows, ORIGIN)
    envelope = json.loads(text)
    assert kind is RowKind.INSERT
    assert (envelope["op"], envelope["before"]) == ("u", None)
    assert envelope["after"] == {"id": 1, "name": "__debezium_unavailable_value", "score": "nan"}
    assert envelope["source"] == {
        "connector": "x",
        "db": "shop",
        "schema": "public",
        "table": "users",
        "txId": "731",
        "ts_ms": 1_500,
        "snapshot": "false",
    }


def test_a_truncate_is_an_event_and_no_row() -> None:
    ((event, _),) = Events().truncated(USERS, ORIGIN)
    assert (event.op, list(event.changes())) == (Op.TRUNCATE, [])
    ((text, _),) = DebeziumRecords().truncated(USERS, ORIGIN)
    assert json.loads(text)["op"] == "t"


COLUMNS = {"columns": ("name", "id"), "types": (DataTypes.STRING(), DataTypes.BIGINT().not_null())}


def test_rows_of_tables_are_the_declared_columns_and_metadata() -> None:
    rows = TableRows(**COLUMNS, metadata=tuple(METADATA))  # type: ignore[arg-type]
    then = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC)
    assert rows.changed(USERS, UPDATE, ORIGIN) == [
        (("ada", 1, "shop", "public", "users", then, "-U"), RowKind.UPDATE_BEFORE),
        (("eve", 1, "shop", "public", "users", then, "+U"), RowKind.UPDATE_AFTER),
    ]
    assert rows.loaded(USERS, [ADA])[0][5] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def test_upserts_leave_out_the_row_before_and_delete_by_key() -> None:
    rows = TableRows(**COLUMNS, upsert=True)  # type: ignore[arg-type]
    assert rows.changed(USERS, UPDATE, ORIGIN) == [(("eve", 1), RowKind.UPDATE_AFTER)]
    assert rows.changed(USERS, [(RowKind.DELETE, (1, None, None))], ORIGIN) == [((None, 1), RowKind.DELETE)]
    assert rows.changelog_mode.key_only_deletes
    assert not rows.needs_before


def test_rows_that_cannot_be_made_are_refused_with_the_table() -> None:
    with pytest.raises(
        ConfigError, match=r"table shop\.public\.users has no column 'nome'; expected one of id, name"
    ):
        TableRows(("nome",), (DataTypes.STRING(),)).loaded(USERS, [ADA])
    with pytest.raises(RecordError, match=r"does not have column 'name'.*replica identity FULL"):
        TableRows(**COLUMNS).changed(USERS, [(RowKind.UPDATE_AFTER, (1, UNCHANGED, 1.0))], ORIGIN)  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=r"column 'id'"):
        TableRows(**COLUMNS).loaded(USERS, [("one", "ada", 1.0)])  # type: ignore[arg-type]
