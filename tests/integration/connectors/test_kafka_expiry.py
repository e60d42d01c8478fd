"""Transactions of a Kafka sink that run out while checkpoints are declined: nothing is lost, nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.conformance.test_kafka import read_committed
from tidegate.backends.spi import Blobs
from tidegate.backends.storage import MemoryStorage
from tidegate.common import SimpleStringSchema
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSinkOptions
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

COUNT, RATE = 1_200, 200.0
INTERVAL_MS, TIMEOUT_MS = 300, 2_000
ACCEPTED, DECLINED = 2, 12
"""Checkpoints that the storage takes, and those that it does not take after that: longer than transactions last."""


@pytest.fixture(scope="module")
def punctual() -> Iterator[KafkaService]:
    """A broker that looks often for transactions that ran out."""
    with KafkaService(
        settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    ) as service:
        yield service


class Full(MemoryStorage):
    """Has no space for the metadata of some checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.declined = 0

    @property
    def blobs(self) -> Blobs:
        return _Full(super().blobs, self)


class _Full(Blobs):
    def __init__(self, inner: Blobs, storage: Full) -> None:
        self._inner, self._storage = inner, storage

    def put(self, name: str, source: bytes | Path) -> None:
        if name.endswith("/_metadata"):
            self._storage.asked += 1
            if ACCEPTED < self._storage.asked <= ACCEPTED + DECLINED:
                self._storage.declined += 1
                raise UnavailableError("no space left")
        self._inner.put(name, source)

    def open(self, name: str) -> BinaryIO:
        return self._inner.open(name)

    def list(self, prefix: str) -> list[str]:
        return self._inner.list(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._inner.delete(names)


def numbers_to(kafka: KafkaService, topic: str, timeout_ms: int, **settings: Any) -> Env:
    env = Env.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": 1,
            "pipeline.progress": "off",
            "restart-strategy.fixed-delay.delay": 0,
            **settings,
        }
    )
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema())
    options = KafkaSinkOptions(transaction_timeout_ms=timeout_ms, pool=20)
    env.from_source(GeneratorSource(str, count=COUNT, rate_per_second=RATE)).sink_to(
        KafkaSink(kafka.address, schema, options)
    )
    return env


def test_checkpoints_declined_for_longer_than_transactions_last_lose_and_double_nothing(
    punctual: KafkaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, topic = Full(), punctual.new_topic()
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: storage)
    env = numbers_to(
        punctual,
        topic,
        TIMEOUT_MS,
        **{
            "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
            "restart-strategy.fixed-delay.attempts": 100,
        },
    )

    result = env.execute("numbers")

    assert sorted(read_committed(punctual, topic, 1), key=int) == [str(number) for number in range(COUNT)]
    assert storage.declined == DECLINED
    assert result.restarts >= 1, "no transaction came near its end"


def test_a_timeout_that_two_declined_checkpoints_outlast_is_refused_at_the_start(
    punctual: KafkaService, tmp_path: Path
) -> None:
    env = numbers_to(
        punctual,
        punctual.new_topic(),
        12_000,
        **{"execution.checkpointing.interval": "8 s", "state.checkpoints.dir": str(tmp_path)},
    )

    with pytest.raises(
        ConfigError,
        match=r"transactions time out after 12000 ms, but with two declined checkpoints and the pauses of restarts a transaction may "
        r"wait 32000 ms for its commit; raise transaction_timeout_ms",
    ):
        env.execute("numbers")
