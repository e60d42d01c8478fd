"""Small persisted formats: what earlier versions wrote still loads, and what is written now is what is on record."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tidegate.connectors.base import claim, write_ahead
from tidegate.connectors.base.dead_letters import DeadLetter
from tidegate.connectors.base.ranges import RangeSplit
from tidegate.connectors.files import partitions
from tidegate.connectors.hybrid import enumerator as hybrid
from tidegate.connectors.hybrid.split import HybridSplit
from tidegate.connectors.kafka import enumerator as kafka, transactions
from tidegate.connectors.kafka.outcome import Marker
from tidegate.connectors.kafka.split import KafkaSplit
from tidegate.connectors.kafka.writer import KafkaWork
from tidegate.connectors.socket.split import SocketSplit
from tidegate.connectors.spi import Split
from tidegate.elements import RecordOrigin
from tidegate.ids import (
    Branch,
    CheckpointId,
    FencingTerm,
    LineageId,
    OperatorUid,
    RunId,
    SplitId,
    Subtask,
)
from tidegate.runtime.checkpoint import record
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.observe.events import JobEvent, line_of
from tidegate.runtime.spark.datasource import batches, plan
from tidegate.serde import codec_for
from tidegate.twophase.fencing import Lease
from tidegate.twophase.function import TransactionWork
from tidegate.twophase.spi import Committable

HERE = Path(__file__).parent
RUN = RunId("0123456789abcdef")
SPLIT = KafkaSplit.of("orders", 3, "AbC-1", at=12, stop=70)
MARKER = Marker("9f2c0a1b", 2, 17, "a1")
COMMITTABLE = Committable(OperatorUid("sink"), 1, CheckpointId(17), b"\x00\xff", "transaction t-0-1", 3)
LETTER = DeadLetter(
    b"\xff", "invalid JSON", "orders", "source", (("topic", "orders"), ("offset", "7")), b"k", (("h", None),)
)
RECORDS: dict[str, Any] = {
    "latest-1.msgpack": record.Record(
        record.VERSION,
        LineageId("9f2c0a1b"),
        Branch(2),
        "running",
        Lease("host", "boot", 4711, 99, FencingTerm(5), RUN),
        CheckpointId(17),
        (Retained(RUN, CheckpointId(12)), Retained(RUN, CheckpointId(17))),
        3,
    ),
    "transaction-1.msgpack": TransactionWork("process", b"\x01"),
    "hybrid-split-1.msgpack": HybridSplit.of(1, RangeSplit(SplitId("0/2"), 4, 10), b"\x07"),
    "hybrid-enumerator-1.msgpack": hybrid._State(1, b"\x07", b"\x80"),
    "partitions-1.json": partitions._Known("9f2c0a1b", 17, {"day=1": 1_000}, ("day=0",)),
    "socket-split-1.msgpack": SocketSplit(SplitId("host:9"), "host", 9),
    "kafka-split-1.msgpack": SPLIT,
    "kafka-enumerator-1.msgpack": kafka._State(
        {"orders": kafka.Known("AbC-1", frozenset({3}))}, [SPLIT]
    ),
    "kafka-work-1.msgpack": KafkaWork("orders-0-1", 7, 2, 2, "orders", MARKER, 1_000, "cluster"),
    "kafka-marker-1.json": MARKER,
    "kafka-claim-1.json": transactions.Claim("orders", "sink", "file:///state"),
    "waiting-records-1.msgpack": write_ahead.WaitingRecords("token", [b"\x01", b""]),
    "claim-1.json": claim.Claim("orders", "sink", "file:///state"),
    "spark-offset-1.json": plan.Offset(({"id": "0"},), ({"id": "1"},), b"\x80"),
    "spark-batch-1.msgpack": batches.Record("query", 4, (COMMITTABLE,), "settled"),
    "dead-letter-1.json": LETTER,
    "record-origin-1.msgpack": RecordOrigin("source-1", "0/2", 7),
}  # fmt: skip
"""By the name of the file that holds it as that version wrote it."""


PERSISTING: Final = (
    "tidegate.twophase",
    *(
        f"tidegate.connectors.{folder}"
        for folder in ("base", "files", "functions", "hybrid", "kafka", "socket")
    ),
    "tidegate.runtime.operators",
    "tidegate.runtime.spark.datasource",
)
ABSTRACT: Final = {Split}
STATES: Final = {
    "connectors.base.enumerator",
    "connectors.files.enumerator",
    "connectors.hybrid.enumerator",
    "connectors.kafka.enumerator",
}
"""Snapshots of enumerators; those of lists and of directories are on record with the connectors."""


def written(name: str, value: Any) -> bytes:
    form = msgspec.json if name.endswith(".json") else msgspec.msgpack
    return bytes(form.encode(value))


@pytest.mark.parametrize("name", RECORDS)
def test_what_an_earlier_version_wrote_loads(name: str) -> None:
    form = msgspec.json if name.endswith(".json") else msgspec.msgpack

    assert form.decode((HERE / name).read_bytes(), type=type(RECORDS[name])) == RECORDS[name]


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_written_now_is_on_record(name: str) -> None:
    assert written(name, RECORDS[name]) == (HERE / name).read_bytes()


def test_a_work_of_kafka_without_a_cluster_loads() -> None:
    older = msgspec.msgpack.decode((HERE / "kafka-work-1.msgpack").read_bytes())
    del older["cluster"]

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(older), type=KafkaWork).cluster == ""


def test_a_dead_letter_in_state_or_between_processes_loads() -> None:
    codec = codec_for(None)

    assert codec.decode((HERE / "dead-letter-1.bin").read_bytes()) == LETTER
    assert codec.encode(LETTER) == (HERE / "dead-letter-1.bin").read_bytes()


def test_a_line_of_the_event_log_is_on_record() -> None:
    event = JobEvent(
        1_700_000_000_123,
        "acked",
        "text",
        CheckpointId(7),
        Subtask(OperatorUid("totals"), 1),
        9,
        2,
        {"sink": 2},
    )

    assert line_of(event, {"job": "orders"}) == (HERE / "event-1.json").read_bytes()


def test_every_format_with_a_version_is_on_record() -> None:
    packages = map(importlib.import_module, PERSISTING)
    names = [each.name for of in packages for each in pkgutil.iter_modules(of.__path__, f"{of.__name__}.")]
    texts = [path.read_text(encoding="utf-8") for path in HERE.parent.rglob("test_*.py")]
    loaded = [importlib.import_module(name) for name in names]
    found = {
        kind
        for module in loaded
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
        if kind.__struct_config__.tag_field == "v" and type(kind.__struct_config__.tag) is int
    }
    named = {type(value) for value in RECORDS.values()}

    assert len(found) > 15
    missing = {
        kind.__qualname__
        for kind in found - named - ABSTRACT
        if not any(re.search(rf"\b{kind.__qualname__.strip('_')}\b", text) for text in texts)
    }
    assert missing - {"_State"} == set()
    assert {
        kind.__module__.rpartition("tidegate.")[2] for kind in found if kind.__qualname__ == "_State"
    } == STATES
