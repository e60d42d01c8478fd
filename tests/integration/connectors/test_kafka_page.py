"""What the page about Kafka prints works: its program on a broker, and every type that it says values may have."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from tests.conformance.test_kafka import filled, read_committed
from tests.waiting import until
from tidegate.connectors.kafka import JsonValues
from tidegate.testing.services import KafkaService

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kafka.md"


@pytest.mark.service
def test_the_program_of_the_page_totals_orders(
    kafka: KafkaService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_PARALLELISM_DEFAULT", "1")
    monkeypatch.setenv("TIDEGATE_EXECUTION_TARGET", "inline")
    found = re.search(
        r"^```python run\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    amounts = [("ann", 3), ("bob", 1), ("ann", 4)]
    orders = filled(kafka, 1, [json.dumps({"user": user, "amount": amount}) for user, amount in amounts])
    totals = kafka.new_topic(1)
    text = found[1].replace("localhost:9092", kafka.address).replace("10_000", "200")
    names: dict[str, Any] = {}
    exec(text.replace('("orders",)', f'("{orders}",)').replace('"totals", key', f'"{totals}", key'), names)

    client = names["env"].execute_async("billing")
    seen = until(lambda: len(found := read_committed(kafka, totals, 1)) == 3 and found, job=client)
    client.stop().result()

    assert [json.loads(total) for total in seen or ()] == [
        {"user": "ann", "amount": 3},
        {"user": "bob", "amount": 1},
        {"user": "ann", "amount": 7},
    ]


@dataclass
class Order:
    user: str


class Typed(TypedDict):
    user: str


class Struct(msgspec.Struct):
    user: str


class Pair(NamedTuple):
    user: str
    amount: int


class Colour(Enum):
    RED = "red"


class Message:
    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def value(self) -> bytes | None:
        return self._value


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (Any, b'{"a": [1, null]}', {"a": [1, None]}),
        (dict, b'{"a": "b"}', {"a": "b"}),
        (dict[str, int], b'{"a": 1}', {"a": 1}),
        (Typed, b'{"user": "ann"}', {"user": "ann"}),
        (Order, b'{"user": "ann", "more": 1}', Order("ann")),
        (Struct, b'{"user": "ann"}', Struct("ann")),
        (list[str], b'["a"]', ["a"]),
        (set[int], b"[1]", {1}),
        (tuple[int, str], b'[1, "a"]', (1, "a")),
        (Pair, b'["ann", 1]', Pair("ann", 1)),
        (Colour, b'"red"', Colour.RED),
        (Literal["a"], b'"a"', "a"),
        (datetime, b'"2026-01-02T03:04:05Z"', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (date, b'"2026-01-02"', date(2026, 1, 2)),
        (time, b'"03:04:05"', time(3, 4, 5)),
        (timedelta, b'"PT5S"', timedelta(seconds=5)),
        (Decimal, b'"1.50"', Decimal("1.50")),
        (UUID, b'"12345678-1234-5678-1234-567812345678"', UUID("12345678-1234-5678-1234-567812345678")),
        (bytes, b'"AQI="', b"\x01\x02"),
        (int | None, None, None),
    ],
    ids=str,
)
def test_values_of_every_type_that_the_page_names_are_read(type_: Any, text: bytes, expected: object) -> None:
    (value,) = JsonValues(type_).values([Message(text)])

    assert (value, type(value)) == (expected, type(expected))
