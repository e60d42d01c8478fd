"""What a Kafka sink does on a real broker when things are not as they should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.formats import SimpleStringSchema
from tidegate.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
    PlainKafkaSink,
    _client,
    producers,
)
from tidegate.connectors.kafka._wire import Wire
from tidegate.connectors.kafka.pool import id_pattern
from tidegate.connectors.kafka.writer import KafkaWork
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, RecordError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.row import Row
from tidegate.testing.services import KafkaService
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, Retry, WriterContext

pytestmark = pytest.mark.service

LAST_EPOCH = 32_766
MANY = 63
"""1, 2, 4, 8, 16 and 32 at once, which is the most."""
UID = OperatorUid("sink")
WRITER = WriterContext(
    PipelineId("orders"), UID, Subtask("sink", 0), 1, LineageId("1f"), Branch(0), "a", (), SYSTEM_CLOCK
)
COMMITTER = CommitterContext(PipelineId("orders"), UID, LineageId("1f"), SYSTEM_CLOCK, "file:///state")


@pytest.fixture
def topic(kafka: KafkaService) -> str:
    return kafka.new_topic()


def sink_of(kafka: KafkaService, topic: str, **options: Any) -> KafkaSink:
    """A sink whose prefix is its own, as all tests share a broker."""
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema(), key=str.encode)
    return KafkaSink(kafka.address, schema, KafkaSinkOptions(**{"prefix": topic, **options}))


def prepared(writer: Any, number: int) -> Committable:
    found = writer.prepare(CheckpointId(number))
    assert found is not None
    return Committable(UID, 0, CheckpointId(number), *found)


def test_the_writers_own_producers_commit_and_few_ids_are_used_for_many_checkpoints(
    kafka: KafkaService, topic: str
) -> None:
    sink = sink_of(kafka, topic)
    writer, committer = sink.open_writer(WRITER), sink.open_committer(COMMITTER)
    works = []
    for number in range(1, 8):
        writer.write(Batch([f"record {number}"]))
        works.append(prepared(writer, number))
        assert committer.commit(works[-1:]) == [CommitAnswer.COMMITTED]
    writer.close()

    assert {work.describe.split("'")[1] for work in works} == {f"{topic}-0-0"}
    assert committer.commit(works[-1:]) == [CommitAnswer.ALREADY_COMMITTED]
    committer.close()


def test_what_many_writers_of_an_epoch_prepared_is_committed_together(
    kafka: KafkaService, topic: str
) -> None:
    sink = sink_of(kafka, topic)
    works = []
    for number in range(MANY):
        writer = sink.open_writer(
            replace(WRITER, subtask=Subtask("sink", number), parallelism=MANY, pool_index=0)
        )
        writer.write(Batch([f"record {number}"]))
        works.append(prepared(writer, 1))
        writer.close()  # they live no longer
    committer = sink.open_committer(COMMITTER)

    # Who had to be asked again by itself would be found committed already.
    assert committer.commit(works) == [CommitAnswer.COMMITTED] * MANY
    assert committer.commit(works) == [CommitAnswer.ALREADY_COMMITTED] * MANY
    committer.close()
    assert sorted(read(kafka, topic, MANY)) == sorted(f"record {number}".encode() for number in range(MANY))


def test_work_that_waits_takes_ids_until_there_are_none(kafka: KafkaService, topic: str) -> None:
    writer = sink_of(kafka, topic, pool=2).open_writer(WRITER)
    for number in (1, 2):
        writer.write(Batch([f"record {number}"]))
        prepared(writer, number)
    with pytest.raises(
        UnavailableError, match=rf"^kafka sink: all 2 transactional ids of the subtask \({topic}-0-0"
    ):
        writer.write(Batch(["one more"]))
    writer.close()


def test_a_transaction_that_ran_out_is_found_aborted_and_its_writer_says_what_happened(
    kafka: KafkaService, topic: str
) -> None:
    """Somebody else began anew under the id, as the broker does by itself when a transaction runs out."""
    sink = sink_of(kafka, topic)
    writer, committer = sink.open_writer(WRITER), sink.open_committer(COMMITTER)
    writer.write(Batch(["lost"]))
    work = prepared(writer, 1)
    writer.write(Batch(["lost too"]))
    assert committer.abort_except(()) == 2
    assert committer.commit([work]) == [CommitAnswer.ABORTED]
    writer.write(Batch(["never"]))
    with pytest.raises(UnavailableError, match=r"the broker ended the transaction or fenced the producer"):
        writer.prepare(CheckpointId(2))
    with pytest.raises(UnavailableError, match="the broker ended the transaction"):
        writer.write(Batch(["nor this"]))
    writer.close()
    committer.close()


def test_a_new_owner_refuses_idle_producers_of_every_subtask_there_was_and_no_newer_one(
    kafka: KafkaService, topic: str
) -> None:
    sink, wire = sink_of(kafka, topic), Wire({"bootstrap.servers": kafka.address}, SYSTEM_CLOCK)
    idle = [sink.open_writer(replace(WRITER, subtask=Subtask("sink", n), parallelism=3)) for n in range(3)]
    seen = wire.producers(id_pattern(topic))
    assert [name for name, _, _ in seen] == [f"{topic}-{n}-0" for n in range(3)]
    committer = sink.open_committer(COMMITTER)
    committer.fence()
    for writer in idle:
        writer.write(Batch(["never"]))
        with pytest.raises(UnavailableError, match="fenced the producer"):
            writer.prepare(CheckpointId(1))
        writer.close()
    assert wire.open_transactions(id_pattern(topic)) == []

    newer = sink.open_writer(WRITER)
    newer.write(Batch(["kept"]))
    work = prepared(newer, 2)
    # For the others it is the same request again, of which the coordinator knows that it was done.
    assert wire.fence(seen) == seen[:1]
    assert committer.commit([work]) == [CommitAnswer.COMMITTED]
    newer.close()
    committer.close()
    wire.close()


def test_a_prefix_of_another_pipeline_is_refused_by_its_name_unless_taken_over(
    kafka: KafkaService, topic: str
) -> None:
    sink = sink_of(kafka, topic)
    first = sink.open_committer(COMMITTER)
    first.abort_except(())
    first.abort_except(())
    other = replace(COMMITTER, pipeline=PipelineId("refunds"))
    second = sink.open_committer(other)
    with pytest.raises(
        ConfigError,
        match=rf"^kafka sink: transactional ids that start with '{topic}' belong to pipeline 'orders', operator 'sink', "
        r"with its checkpoints in file:///state; choose another prefix; or, if .* start with --take-over$",
    ):
        second.abort_except(())
    elsewhere = sink.open_committer(replace(COMMITTER, home="file:///other"))
    with pytest.raises(ConfigError, match="belong to pipeline 'orders'"):
        elsewhere.abort_except(())
    taking = sink_of(kafka, topic, take_over=True).open_committer(other)
    taking.abort_except(())
    with pytest.raises(ConfigError, match="belong to pipeline 'refunds'"):
        first.abort_except(())
    for committer in (first, second, elsewhere, taking):
        committer.close()


def test_a_topic_that_does_not_exist_is_named(kafka: KafkaService) -> None:
    with pytest.raises(
        ConfigError, match=r"^kafka sink: topic 'no-such-topic' does not exist; create it, or check"
    ):
        sink_of(kafka, "no-such-topic").open_writer(WRITER)


def test_unsafe_timeouts_are_refused_with_the_numbers(kafka: KafkaService, topic: str) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^kafka sink: transaction_timeout_ms is 1000000; the brokers allow at most 900000 \(trans",
    ):
        sink_of(kafka, topic, transaction_timeout_ms=1_000_000).open_writer(WRITER)
    with pytest.raises(
        ConfigError,
        match=r"^kafka sink: transactions time out after 5000 ms, but .* may wait 13000 ms for its commit; raise",
    ):
        sink_of(kafka, topic, transaction_timeout_ms=5_000).open_writer(replace(WRITER, exposed_ms=13_000))


def test_a_record_over_the_limit_is_refused_with_its_whole_batch(kafka: KafkaService, topic: str) -> None:
    writer = sink_of(kafka, topic).open_writer(WRITER)
    with pytest.raises(
        RecordError, match=r"^kafka sink: the message of record 'x+.* has 2000000 bytes; expected at most"
    ):
        writer.write(Batch(["small", "x" * 2_000_000]))
    assert writer.prepare(CheckpointId(1)) is None
    writer.close()


def test_changes_are_refused(kafka: KafkaService, topic: str) -> None:
    writer = sink_of(kafka, topic).open_writer(WRITER)
    with pytest.raises(
        RecordError, match=r"^kafka sink: the kind of a change would be lost; got 'a' as DELETE"
    ):
        writer.write(Batch(["a"], kinds=[RowKind.DELETE]))
    writer.close()


def test_another_subtask_goes_on_with_a_key_after_what_was_written_of_it_is_committed(
    kafka: KafkaService, topic: str
) -> None:
    """What happens when the parallelism changes: the start commits what the old owner prepared before anybody writes."""
    schema = KafkaRecordSerializationSchema(
        topic, value=itemgetter(1), key=itemgetter(0), upsert=True, timestamps=False
    )
    sink = KafkaSink(kafka.address, schema, KafkaSinkOptions(prefix=topic))
    before = sink.open_writer(replace(WRITER, subtask=Subtask("sink", 1), parallelism=2))
    changed = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.INSERT]
    before.write(Batch([Row(b"ada", b"1"), Row(b"ada", b"1"), Row(b"bob", b"1")], kinds=changed))
    work = prepared(before, 1)
    before.write(Batch([Row(b"ada", b"lost")]))
    before.close()
    committer = sink.open_committer(COMMITTER)
    assert committer.commit([work]) == [CommitAnswer.COMMITTED]
    assert committer.abort_except(()) <= 1
    after = sink.open_writer(WRITER)
    changed = [RowKind.UPDATE_AFTER, RowKind.DELETE]
    after.write(Batch([Row(b"ada", b"2"), Row(b"bob", b"1")], kinds=changed))
    assert committer.commit([prepared(after, 2)]) == [CommitAnswer.COMMITTED]
    after.close()
    committer.close()

    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read = [(message.key(), message.value()) for message in consumer.consume(4, 30)]
    consumer.close()
    assert read == [(b"ada", b"1"), (b"bob", b"1"), (b"ada", b"2"), (b"bob", None)]


@pytest.fixture
def small(kafka: KafkaService) -> Iterator[str]:
    """A topic that takes less than the client thinks."""
    admin, name = AdminClient({"bootstrap.servers": kafka.address}), f"small-{kafka.new_topic()}"
    admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "1000"})])[name].result()
    yield name
    admin.delete_topics([name])[name].result()


@pytest.mark.parametrize("exactly", [True, False], ids=["exactly once", "at least once"])
def test_a_failed_delivery_is_an_error(kafka: KafkaService, small: str, exactly: bool) -> None:
    sink: Any = sink_of(kafka, small)
    writer = (sink if exactly else PlainKafkaSink(kafka.address, sink.schema)).open_writer(WRITER)
    writer.write(Batch(["x" * 2_000]))
    with pytest.raises(
        RecordError,
        match=rf"^kafka sink, topic '{small}': partition 0 rejects the message of 2000 bytes with key .*; raise",
    ):
        writer.prepare(CheckpointId(1))
    writer.close()


def test_messages_have_key_headers_time_and_the_topic_of_their_record(
    kafka: KafkaService, topic: str
) -> None:
    schema = KafkaRecordSerializationSchema(
        lambda record: record["to"],
        value=lambda record: record["text"].encode() if record["text"] else None,
        key=lambda record: record["key"].encode(),
        headers=lambda record: [("trace", b"7")],
    )
    writer = PlainKafkaSink(kafka.address, schema).open_writer(WRITER)
    records = [{"to": topic, "key": "k", "text": text} for text in ("v", None)]
    writer.write(Batch(records, timestamps=[1_234, 1_235]))
    writer.prepare(CheckpointId(1))
    writer.close()

    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read = consumer.consume(2, 30)
    consumer.close()
    assert [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in read] == [
        (b"k", b"v", [("trace", b"7")], 1_234),
        (b"k", None, [("trace", b"7")], 1_235),
    ]


def test_a_full_queue_is_waited_for(kafka: KafkaService, topic: str) -> None:
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema())
    narrow = {"queue.buffering.max.messages": 10, "linger.ms": 0}
    writer = PlainKafkaSink(kafka.address, schema, properties=narrow).open_writer(WRITER)
    writer.write(Batch([str(number) for number in range(1_000)]))
    writer.prepare(CheckpointId(1))
    writer.close()

    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read = consumer.consume(1_000, 30)
    consumer.close()
    assert [int(message.value()) for message in read] == list(range(1_000))


def test_transactions_of_others_are_left_alone(kafka: KafkaService, topic: str) -> None:
    foreign = Producer(
        {"bootstrap.servers": kafka.address, "transactional.id": f"{topic}-x-0-0", "log_level": 0}
    )
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(topic, "theirs")
    foreign.flush(30)
    committer = sink_of(kafka, topic).open_committer(COMMITTER)
    assert committer.abort_except(()) == 0
    committer.close()
    foreign.commit_transaction(30)


def test_a_commit_without_an_answer_in_time_ends_its_producer_and_others_find_out_about_it(
    kafka: KafkaService, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of it still arrives finds the same transaction, never the next one: the id has another producer then."""
    monkeypatch.setattr(producers, "END_TIMEOUT_S", 1.0)
    monkeypatch.setattr(_client, "TIMEOUT_S", 1.0)
    sink = sink_of(kafka, topic)
    writer, committer = sink.open_writer(WRITER), sink.open_committer(COMMITTER)
    writer.write(Batch(["one"]))
    works = [prepared(writer, 1)]
    kafka.pause()
    try:
        (answer,) = committer.commit(works)
    finally:
        kafka.resume()
    assert isinstance(answer, Retry)
    assert answer.reason
    monkeypatch.undo()
    writer.write(Batch(["two"]))
    works.append(prepared(writer, 2))

    one, two = committer.commit(works)
    assert one in (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED), (
        "whichever of both requests came first"
    )
    assert two is CommitAnswer.COMMITTED
    writer.close()
    again = sink.open_writer(WRITER)
    again.write(Batch(["three"]))
    works.append(prepared(again, 3))
    assert committer.commit(works[2:]) == [CommitAnswer.COMMITTED]
    again.close()
    committer.close()

    found = [msgspec.msgpack.decode(work.payload, type=KafkaWork) for work in works]
    assert [work.transactional_id for work in found] == [f"{topic}-0-{number}" for number in (0, 1, 0)]
    assert found[2].epoch > found[0].epoch
    assert read(kafka, topic, 3) == [b"one", b"two", b"three"]


def read(kafka: KafkaService, topic: str, count: int) -> list[bytes]:
    """The first values that readers of committed records see."""
    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values = [message.value() for message in consumer.consume(count, 30)]
    consumer.close()
    return values


@pytest.mark.long
def test_an_id_whose_epochs_are_used_up_gets_another_producer_and_nothing_is_confused(
    kafka: KafkaService, topic: str
) -> None:
    """A broker counts the producers of an id to 32,766 and then begins anew, under another producer id."""
    sink, works, answers = sink_of(kafka, topic), [], []
    sink.open_writer(WRITER).close()
    wire = Wire({"bootstrap.servers": kafka.address}, SYSTEM_CLOCK)
    ((name, producer_id, first),) = wire.producers(id_pattern(topic))
    for epoch in range(first, LAST_EPOCH - 2):
        assert wire.fence([(name, producer_id, epoch)]) == []
    wire.close()
    for number in range(1, 5):
        writer, committer = sink.open_writer(WRITER), sink.open_committer(COMMITTER)
        writer.write(Batch([f"record {number}"]))
        works.append(prepared(writer, number))
        writer.close()  # from here on it can only be committed over the wire
        if number == 2:
            assert committer.abort_except(()) == 1
        answers += committer.commit(works[-1:] * 2)
        committer.close()

    found = [msgspec.msgpack.decode(work.payload, type=KafkaWork) for work in works]
    assert [work.epoch for work in found][:2] == [LAST_EPOCH - 1, LAST_EPOCH]
    assert found[1].producer_id == found[0].producer_id != found[2].producer_id == found[3].producer_id
    assert found[2].epoch < found[3].epoch < 10
    done = [CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED]
    assert answers == [*done, CommitAnswer.ABORTED, CommitAnswer.ABORTED, *done, *done]
    assert read(kafka, topic, 3) == [b"record 1", b"record 3", b"record 4"]
