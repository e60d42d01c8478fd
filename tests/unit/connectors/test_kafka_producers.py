"""Producers of a sink with the client's own broker, which it brings along for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, _client, sink as module
from tidegate.connectors.kafka.outcome import Marker
from tidegate.connectors.kafka.pool import IdPool
from tidegate.connectors.kafka.producers import Producers, prepared_here
from tidegate.errors import ConfigError
from tidegate.ids import Branch, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import WriterContext

TOPIC = "totals"
MARKER = Marker("lineage", 0, 7, "attempt")


@pytest.fixture
def settings() -> Iterator[dict[str, Any]]:
    holder = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = holder.list_topics(TOPIC, timeout=10).brokers.values()
    yield {
        "bootstrap.servers": f"{broker.host}:{broker.port}",
        "statistics.interval.ms": 1,
        "transaction.timeout.ms": 60_000,
    }
    holder.flush(0)


def producers(settings: dict[str, Any], *, brief: bool) -> Producers:
    return Producers(settings, IdPool("totals", 0, 3), TOPIC, SYSTEM_CLOCK, brief=brief)


@pytest.mark.parametrize("brief", [True, False], ids=["for an epoch", "for long"])
def test_a_transaction_is_known_by_its_name_once_it_is_sealed(settings: dict[str, Any], brief: bool) -> None:
    some = producers(settings, brief=brief)
    transaction = some.take()
    transaction.producer.produce(TOPIC, b"1")
    assert transaction.producer.flush(10) == 0

    key = transaction.seal(TOPIC, MARKER)
    prepared_here.add(key, transaction)

    assert key[0] == "totals-0-0"
    assert prepared_here.take(key) is transaction
    assert transaction.commit()
    some.close()


def test_a_producer_that_has_nothing_to_do_keeps_no_statistics(settings: dict[str, Any]) -> None:
    some = producers(settings, brief=False)
    transaction = some.take()
    assert transaction.key is not None
    some.give_back(transaction)
    until(lambda: len(transaction.producer) >= 5)  # nobody listens, so they pile up

    some.listen()

    assert len(transaction.producer) < 5
    some.close()


class Asked:
    """Stands in for a cluster; counts what is asked."""

    times = 0

    def __init__(self, settings: object) -> None:
        Asked.times += 1

    def topics(self, names: list[str]) -> list[str]:
        return [name for name in names if name != "gone"]

    def broker_setting(self, key: str) -> str:
        return "50000"


@pytest.mark.parametrize(("slot", "times"), [(3, 1), (None, 2)], ids=["for an epoch", "for long"])
def test_writers_of_an_epoch_ask_for_the_brokers_limit_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, slot: int | None, times: int
) -> None:
    monkeypatch.setattr(_client, "Cluster", Asked)
    monkeypatch.setattr(Asked, "times", 0)
    monkeypatch.setattr(module, "_heard", {})
    opened: list[Any] = []
    monkeypatch.setattr(module, "TransactionalWriter", lambda settings, *_: opened.append(settings))
    context = WriterContext(
        PipelineId("job"),
        OperatorUid("sink"),
        Subtask("sink", 0),
        1,
        LineageId("lineage"),
        Branch(0),
        "attempt",
        (),
        SYSTEM_CLOCK,
        slot=slot,
    )

    for _ in range(2):
        KafkaSink("nowhere:1", KafkaRecordSerializationSchema(TOPIC)).open_writer(context)

    assert [each["transaction.timeout.ms"] for each in opened] == [50_000, 50_000]
    assert Asked.times == times
    with pytest.raises(ConfigError, match="topic 'gone' does not exist"):
        KafkaSink("nowhere:1", KafkaRecordSerializationSchema("gone")).open_writer(context)
