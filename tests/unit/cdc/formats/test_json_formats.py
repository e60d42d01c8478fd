"""JSON formats of changes: what messages of other systems mean, and what ours look like."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tidegate.cdc.formats import CanalJson, ChangelogJson, DebeziumJson, MaxwellJson
from tidegate.cdc.formats.envelope import JsonChangeFormat
from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.row import Row
from tidegate.types import Types

USERS = Types.ROW_NAMED(["id", "name", "paid"], [Types.INT(), Types.STRING(), Types.BIG_DEC()])
ADA = {"id": 1, "name": "ada", "paid": 1.10}
EVE = {"id": 1, "name": "eve", "paid": 1.10}


def changes(format: JsonChangeFormat, message: Any) -> list[tuple[str, tuple[Any, ...]]]:
    return [(str(kind), tuple(row)) for kind, row in format.decode(msgspec.json.encode(message))]


OLD, NEW = (1, "ada", Decimal("1.1")), (1, "eve", Decimal("1.1"))
UPDATED = [("-U", OLD), ("+U", NEW)]


@pytest.mark.spec("004/AX-050", "004/CDC-009", "004/CDC-010")
@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"op": "u", "before": ADA, "after": EVE}, UPDATED),
        ({"op": "c", "before": None, "after": ADA, "ts_ms": 5, "source": {"db": "x"}}, [("+I", OLD)]),
        ({"op": "r", "before": None, "after": ADA}, [("+I", OLD)]),
        ({"op": "d", "before": ADA, "after": None}, [("-D", OLD)]),
        ({"schema": {"type": "struct"}, "payload": {"op": "d", "before": ADA, "after": None}}, [("-D", OLD)]),
        ({"op": "m", "message": {}}, []),
    ],
    ids=["update", "create", "read", "delete", "with its schema", "message"],
)
def test_operations_of_debezium_are_kinds_of_rows(envelope: Any, expected: object) -> None:
    assert changes(DebeziumJson(USERS), envelope) == expected


def test_a_tombstone_changes_no_row() -> None:
    assert DebeziumJson(USERS).decode(None) == ()


def test_updates_without_the_row_before_need_upsert() -> None:
    envelope = {"op": "u", "before": None, "after": EVE}
    with pytest.raises(RecordError, match="without the row before; set replica identity FULL"):
        changes(DebeziumJson(USERS), envelope)
    upsert = DebeziumJson(USERS, upsert=True)
    assert changes(upsert, envelope) == [("+U", NEW)]
    assert upsert.changelog_mode == ChangelogMode.upsert()


@pytest.mark.spec("003/TC-12")
@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        (
            {"type": "INSERT", "data": [{"id": "1", "name": "ada", "paid": "1.1"}, ADA]},
            [("+I", OLD), ("+I", OLD)],
        ),
        ({"type": "UPDATE", "data": [EVE], "old": [{"name": "ada"}]}, UPDATED),
        ({"type": "DELETE", "data": [ADA]}, [("-D", OLD)]),
        ({"type": "ALTER", "isDdl": True, "sql": "alter table users ..."}, []),
    ],
    ids=["insert of texts", "update", "delete", "statement"],
)
def test_messages_of_canal_are_kinds_of_rows(envelope: Any, expected: object) -> None:
    assert changes(CanalJson(USERS), envelope) == expected


def test_canal_leaves_out_other_tables() -> None:
    format = CanalJson(USERS, database="shop", table="users.*")
    assert changes(format, {"type": "DELETE", "database": "shop", "table": "users_1", "data": [ADA]}) == [
        ("-D", OLD)
    ]
    assert (
        changes(format, {"type": "DELETE", "database": "shop", "table": "orders", "data": [{"x": 1}]}) == []
    )
    assert changes(format, {"type": "DELETE", "database": None, "table": "users", "data": [ADA]}) == []


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"type": "insert", "data": ADA}, [("+I", OLD)]),
        ({"type": "bootstrap-insert", "data": ADA}, [("+I", OLD)]),
        ({"type": "update", "data": EVE, "old": {"name": "ada"}}, UPDATED),
        ({"type": "delete", "data": ADA}, [("-D", OLD)]),
        ({"type": "table-alter", "sql": "..."}, []),
    ],
    ids=["insert", "bootstrap", "update", "delete", "statement"],
)
def test_messages_of_maxwell_are_kinds_of_rows(envelope: Any, expected: object) -> None:
    assert changes(MaxwellJson(USERS), envelope) == expected


ALL: Sequence[JsonChangeFormat] = (
    DebeziumJson(USERS),
    CanalJson(USERS),
    MaxwellJson(USERS),
    ChangelogJson(USERS),
)
IDS = [each.name for each in ALL]


@pytest.mark.parametrize("format", ALL, ids=IDS)
@pytest.mark.parametrize("kind", list(RowKind), ids=lambda kind: kind.name.lower())
def test_what_is_written_is_read_as_the_same_change(format: JsonChangeFormat, kind: RowKind) -> None:
    read = pickle.loads(pickle.dumps(format)).decode(format.encode(kind, OLD))
    # Only changelog-json has all four kinds; in the others a row comes or goes.
    gone = kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
    expected = kind if isinstance(format, ChangelogJson) else RowKind.DELETE if gone else RowKind.INSERT
    assert read == [(expected, Row.of(OLD, ["id", "name", "paid"]))]


@pytest.mark.parametrize("format", ALL, ids=IDS)
@pytest.mark.parametrize(
    "message",
    [
        b"no json",
        b"{}",
        b"[]",
        b'{"op": "x", "type": "x", "data": [{}]}',
        b'{"op": "c", "after": {"id": "one"}}',
    ],
    ids=["text", "empty", "list", "unknown operation", "wrong type"],
)
def test_other_messages_are_refused(format: JsonChangeFormat, message: bytes) -> None:
    with pytest.raises(RecordError, match=format.name):
        format.decode(message)


def test_decimals_keep_their_digits() -> None:
    message = b'{"op": "c", "after": {"id": 1, "name": "ada", "paid": 1.00000000000000000000001}}'
    assert [row[2] for _, row in DebeziumJson(USERS).decode(message)] == [
        Decimal("1.00000000000000000000001")
    ]
