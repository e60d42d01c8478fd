"""Change data capture: change events of database rows, and the merge of a table snapshot with the log."""

from __future__ import annotations

from tidegate.cdc.change import ChangeEvent as ChangeEvent, Op as Op, TableId as TableId
from tidegate.cdc.debezium_records import DebeziumRecords as DebeziumRecords
from tidegate.cdc.records import (
    CapturedTable as CapturedTable,
    ChangeDeserializer as ChangeDeserializer,
    ChangeOrigin as ChangeOrigin,
    Events as Events,
    Rows as Rows,
)

__all__ = [
    "CapturedTable",
    "ChangeDeserializer",
    "ChangeEvent",
    "ChangeOrigin",
    "DebeziumRecords",
    "Events",
    "Op",
    "Rows",
    "TableId",
]
