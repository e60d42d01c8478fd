"""Writes the records of one subtask to Kafka, in transactions or without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any, Final

import msgspec

from tidegate.connectors.kafka.options import KafkaSinkOptions
from tidegate.connectors.kafka.outcome import Marker
from tidegate.connectors.kafka.pool import IdPool
from tidegate.connectors.kafka.producers import (
    FLUSH_TIMEOUT_S,
    Failures,
    Key,
    Producers,
    Transaction,
    prepared_here,
)
from tidegate.connectors.kafka.record_schema import ANY_PARTITION, KafkaRecordSerializationSchema, Message
from tidegate.connectors.kafka.refused import Policy, RefusedRecords
from tidegate.elements import Batch, RowKind
from tidegate.errors import TidegateError, UnavailableError
from tidegate.faults import point
from tidegate.ids import CheckpointId
from tidegate.row import kind_of, values_with_kinds
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["KafkaWork", "PlainWriter", "TransactionalWriter"]

PROTOCOL: Final = 1
"""librdkafka's transactions: the epoch stays with the producer."""
_LARGEST: Final = 1_000_000
_OVERHEAD: Final = 512
_FULL_POLL_S: Final = 0.05


class KafkaWork(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """A committable's payload: which transaction, and which marker says that it was committed."""

    transactional_id: str
    producer_id: int
    epoch: int
    protocol: int
    topic: str
    marker: Marker
    prepared_ms: int
    cluster: str = ""
    """The id of the cluster; empty if an older version wrote it."""

    @property
    def key(self) -> Key:
        """What names the transaction in its cluster."""
        return self.transactional_id, self.producer_id, self.epoch


class Outlet:
    """Encodes records and puts them into a producer's queue, in order; waits where that is full."""

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        settings: Mapping[str, Any],
        policy: Policy,
        context: WriterContext,
    ) -> None:
        self._brokers = settings["bootstrap.servers"]
        self._timed = schema.timestamps
        largest = int(settings.get("message.max.bytes", _LARGEST)) - _OVERHEAD
        self.refused = RefusedRecords(policy, context, largest)
        change = schema.changer(largest) if schema.takes_changes else None
        self.encode = self.refused.lenient(
            schema.encoder(largest) if change is None else lambda record: change(record, kind_of(record))
        )
        self._changes = change and {
            kind: self.refused.lenient(partial(_of_kind, change, kind)) for kind in RowKind
        }
        self._complete = policy[0] == "fail" and change is None
        self._plain = schema.plain and policy[0] == "fail"  # dead letters have headers

    def encoded(self, batch: Batch) -> Batch:
        """A batch of messages.

        Raises:
            RecordError: one cannot be written, so none is.
        """
        changes = self._changes
        if changes is not None and batch.kinds is not None:
            pairs = zip(batch.kinds, batch.values, strict=True)
            return batch.with_values([changes[kind](value) for kind, value in pairs])
        values, encode = batch.values, self.encode
        if changes is None:
            values = values_with_kinds(batch, "kafka sink", "let its schema be one with upsert")
        else:
            encode = changes[RowKind.INSERT]
        return batch.with_values(list(map(encode, values)))

    def kept(self, batch: Batch) -> Batch:
        """The messages that are to be written."""
        if self._complete or None not in batch.values:
            return batch
        return batch.select([place for place, message in enumerate(batch.values) if message is not None])

    def put(self, producer: Any, batch: Batch) -> str:
        """Queue messages and let the producer work; the topic of the first."""
        from tidegate.connectors.kafka._client import call_client, translated_errors

        times: Iterable[int] = repeat(0)
        if self._timed and batch.timestamps is not None:
            times = map(max, batch.timestamps, repeat(0)) if min(batch.timestamps) < 0 else batch.timestamps
        produce, plain, messages = producer.produce, self._plain, zip(batch.values, times, strict=False)
        with translated_errors("sink", self._brokers):
            for (topic, value, key, partition, headers), time in messages:
                # By position, and no more than there is to say: keywords would take as long as all the rest.
                try:
                    if not plain:
                        produce(topic, value, key, partition, None, None, time, headers)
                    elif time:
                        produce(topic, value, key, ANY_PARTITION, None, None, time)
                    else:
                        produce(topic, value, key)
                except BufferError:
                    self._put_later(producer, topic, value, key, partition, None, None, time, headers)
            call_client(producer.poll, 0, "sink", self._brokers)
        return str(batch.values[0][0])

    def _put_later(self, producer: Any, *message: Any) -> None:
        """Queue a message as soon as there is room."""
        from tidegate.connectors.kafka._client import call_client

        while True:
            call_client(producer.poll, _FULL_POLL_S, "sink", self._brokers)
            with suppress(BufferError):
                producer.produce(*message)
                return


class TransactionalWriter(SinkWriter):
    """One transaction per epoch that has records."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        cluster: str,
        schema: KafkaRecordSerializationSchema,
        prefix: str,
        options: KafkaSinkOptions,
        context: WriterContext,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._context = context
        self._outlet = Outlet(schema, settings, (options.on_error, options.dead_letters), context)
        self.encode = self._outlet.encode
        ids = IdPool(prefix, context.subtask.index, options.pool, context.pool_index)
        self._producers = Producers(
            settings, cluster, ids, schema.one_topic, context.clock, brief=context.pool_index is not None
        )
        self._open: Transaction | None = None
        self._began = 0.0
        """When the transaction that was prepared last began."""
        self._topic = ""
        self._records = 0
        self._broken: TidegateError | None = None

    def write(self, batch: Batch) -> None:
        """Queue a batch in the open transaction; a batch with a record that cannot be written leaves no trace."""
        self.write_encoded(self._outlet.encoded(batch))

    def write_encoded(self, batch: Batch) -> None:
        """Queue a batch of messages."""
        batch = self._outlet.kept(batch)
        if not batch.values:
            return
        self._guard()
        try:
            if self._open is None:
                self._open = self._producers.take()
            self._put(self._open, batch)
        except TidegateError as error:
            self._broken = error
            raise
        self._records += len(batch)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Flush, and add the marker; the transaction then waits for its commit."""
        self._guard()
        self._producers.listen()
        if self._open is None:
            return None
        transaction, who = self._open, self._context
        marker = Marker(who.lineage, who.branch, checkpoint, who.attempt)
        try:
            point("sink.before-flush")
            _flush(transaction.producer, transaction.failures, self._settings["bootstrap.servers"])
            point("sink.after-flush")
            key = transaction.seal(self._topic, marker)
        except TidegateError as error:
            self._broken = error
            raise
        self._open, self._began = None, transaction.began
        prepared_here.add(self._cluster, key, transaction)
        work = KafkaWork(*key, PROTOCOL, self._topic, marker, who.clock.now_ms(), self._cluster)
        records, self._records = self._records, 0
        describe = f"transaction {transaction.id!r} of checkpoint {checkpoint} in topic {self._topic!r}"
        return msgspec.msgpack.encode(work), describe, records

    def expires_in_ms(self) -> int:
        """How long until the broker may abort the transaction that was prepared last."""
        age_ms = (self._context.clock.monotonic() - self._began) * 1_000
        return int(self._settings["transaction.timeout.ms"] - age_ms)

    def close(self) -> None:
        """Let go of the producers."""
        self._producers.close()

    def _put(self, transaction: Transaction, batch: Batch) -> None:
        topic = self._outlet.put(transaction.producer, batch)
        # The marker goes to a topic that the transaction writes to anyway, so it exists and may be written.
        self._topic = self._topic if self._records else topic
        if transaction.failures.first is not None:
            raise transaction.failures.first

    def _guard(self) -> None:
        """After a failure the content of the transaction is unknown."""
        if self._broken is not None:
            raise self._broken


class PlainWriter(SinkWriter):
    """No transactions: records are visible as they come."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        schema: KafkaRecordSerializationSchema,
        policy: Policy,
        context: WriterContext,
        *,
        waits: bool,
    ) -> None:
        from tidegate.connectors.kafka._client import new_producer

        self._brokers = settings["bootstrap.servers"]
        self._failures = Failures(self._brokers)
        self._outlet = Outlet(schema, settings, policy, context)
        self.encode = self._outlet.encode
        self._producer = new_producer({**settings, "on_delivery": self._failures.on_delivery})
        self._waits = waits

    def write(self, batch: Batch) -> None:
        """Queue a batch."""
        self.write_encoded(self._outlet.encoded(batch))

    def write_encoded(self, batch: Batch) -> None:
        """Queue a batch of messages."""
        batch = self._outlet.kept(batch)
        if not batch.values:
            return
        self._outlet.put(self._producer, batch)
        if self._waits and self._failures.first is not None:
            raise self._failures.first

    def prepare(self, checkpoint: CheckpointId) -> None:
        """Wait until everything is delivered, if that was promised."""
        if self._waits:
            _flush(self._producer, self._failures, self._brokers)

    def close(self) -> None:
        """Deliver what is queued, as far as that is quick."""
        from tidegate.connectors.kafka._client import call_client

        call_client(self._producer.flush, 1.0, "sink", self._brokers)


def _of_kind(change: Callable[[Any, RowKind], Message | None], kind: RowKind, record: Any) -> Message | None:
    return change(record, kind)


def _flush(producer: Any, failures: Failures, brokers: str) -> None:
    from tidegate.connectors.kafka._client import call_client

    try:
        left = call_client(producer.flush, FLUSH_TIMEOUT_S, "sink", brokers)
    except UnavailableError:
        if failures.first is None:
            raise
    if failures.first is not None:
        raise failures.first
    if left:
        raise UnavailableError(
            f"kafka sink: {left} messages were not delivered within {FLUSH_TIMEOUT_S:.0f} s"
        )
