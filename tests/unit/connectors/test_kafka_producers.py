"""Producers of a sink with the client's own broker, which it brings along for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    _client,
    producers as of_producers,
    sink as module,
)
from tidegate.connectors.kafka.outcome import Marker
from tidegate.connectors.kafka.pool import IdPool, marker_group
from tidegate.connectors.kafka.producers import Producers, prepared_here
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import Branch, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import WriterContext

TOPIC = "totals"
MARKER = Marker("lineage", 0, 7, "attempt")


@pytest.fixture
def holder() -> Iterator[Producer]:
    """Two brokers, as long as it lives."""
    holder = Producer({"test.mock.num.brokers": 2, "log_level": 0})
    yield holder
    holder.flush(0)


@pytest.fixture
def settings(holder: Producer) -> dict[str, Any]:
    broker = holder.list_topics(TOPIC, timeout=10).brokers[1]
    return {
        "bootstrap.servers": f"{broker.host}:{broker.port}",
        "statistics.interval.ms": 1,
        "transaction.timeout.ms": 60_000,
    }


def tell(holder: Producer, what: str, *arguments: bytes | int) -> None:
    """Tell the brokers what the client has words for, but not in Python."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    (path,) = {line.split()[-1] for line in maps if "librdkafka" in line}
    library = ctypes.CDLL(path)
    library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    client = ctypes.c_void_p.from_address(id(holder) + object.__basicsize__)
    brokers = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(client))
    assert library[f"rd_kafka_mock_{what}"](brokers, *arguments) == 0


def producers(settings: dict[str, Any], *, brief: bool) -> Producers:
    return Producers(settings, "cluster", IdPool("totals", 0, 3), TOPIC, SYSTEM_CLOCK, brief=brief)


@pytest.mark.parametrize("brief", [True, False], ids=["for an epoch", "for long"])
def test_a_transaction_is_known_by_its_name_once_it_is_sealed(settings: dict[str, Any], brief: bool) -> None:
    some = producers(settings, brief=brief)
    transaction = some.take()
    transaction.producer.produce(TOPIC, b"1")
    assert transaction.producer.flush(10) == 0

    key = transaction.seal(TOPIC, MARKER)
    prepared_here.add("cluster", key, transaction)

    assert key[0] == "totals-0-0"
    assert prepared_here.take("cluster", key) is transaction
    assert transaction.commit()
    some.close()


def test_a_marker_that_the_client_never_comes_back_from_is_given_up_and_the_next_incarnation_goes_on(
    holder: Producer, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_producers, "END_TIMEOUT_S", 0.2)
    monkeypatch.setattr(of_producers, "_GRACE_S", 0.2)
    tell(holder, "coordinator_set", b"transaction", b"totals-0-0", 1)
    tell(holder, "coordinator_set", b"group", marker_group("totals-0-0").encode(), 2)
    some = producers(settings, brief=False)
    stuck = some.take()
    stuck.producer.produce(TOPIC, b"1", partition=0)
    assert stuck.producer.flush(10) == 0

    tell(holder, "broker_set_down", 2)
    with pytest.raises(
        UnavailableError, match=r"^kafka transaction 'totals-0-0': a call of the client has not returned"
    ):
        stuck.seal(TOPIC, MARKER)
    some.close()
    tell(holder, "broker_set_up", 2)
    monkeypatch.undo()

    others = producers(settings, brief=False)
    transaction = others.take()
    transaction.producer.produce(TOPIC, b"1", partition=0)
    key = transaction.seal(TOPIC, MARKER)
    assert key[0] == stuck.id
    assert transaction.commit()
    others.close()


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
    id = "cluster"

    def __init__(self, settings: object) -> None:
        Asked.times += 1

    def topics(self, names: list[str]) -> list[str]:
        return [name for name in names if name != "gone"]

    def broker_setting(self, key: str) -> str:
        return "50000"


@pytest.mark.parametrize(("index", "times"), [(3, 1), (None, 2)], ids=["for an epoch", "for long"])
def test_writers_of_an_epoch_ask_for_the_brokers_limit_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, index: int | None, times: int
) -> None:
    monkeypatch.setattr(_client, "Cluster", Asked)
    monkeypatch.setattr(Asked, "times", 0)
    monkeypatch.setattr(module, "_known_brokers", {})
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
        pool_index=index,
    )

    for _ in range(2):
        KafkaSink("nowhere:1", KafkaRecordSerializationSchema(TOPIC)).open_writer(context)

    assert [each["transaction.timeout.ms"] for each in opened] == [50_000, 50_000]
    assert Asked.times == times
    with pytest.raises(ConfigError, match="topic 'gone' does not exist"):
        KafkaSink("nowhere:1", KafkaRecordSerializationSchema("gone")).open_writer(context)
