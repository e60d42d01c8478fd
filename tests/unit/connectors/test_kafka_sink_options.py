"""What can be said about a Kafka sink, what becomes of records, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tidegate.common import SimpleStringSchema
from tidegate.connectors.kafka import (
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSinkOptions,
    KafkaTopicSelector,
    PlainKafkaSink,
    Semantic,
)
from tidegate.connectors.spi import DeliveryGuarantee, SupportsBranch, SupportsCommit
from tidegate.errors import ConfigError, RecordError

SCHEMA = KafkaRecordSerializationSchema("totals", SimpleStringSchema())


def builder() -> KafkaSinkBuilder:
    return KafkaSink.builder().set_bootstrap_servers("b:1").set_record_serializer(SCHEMA)


def test_only_the_exactly_once_sink_has_something_to_commit() -> None:
    exactly, plain = KafkaSink("b:1", SCHEMA), PlainKafkaSink("b:1", SCHEMA)
    assert isinstance(exactly, SupportsCommit)
    assert isinstance(exactly, SupportsBranch)
    assert not isinstance(plain, SupportsCommit)
    assert (exactly.delivery, plain.delivery) == ("exactly-once", "at-least-once")


@pytest.mark.parametrize(
    ("guarantee", "delivery"),
    [
        (DeliveryGuarantee.EXACTLY_ONCE, "exactly-once"),
        (DeliveryGuarantee.AT_LEAST_ONCE, "at-least-once"),
        (DeliveryGuarantee.NONE, "none"),
    ],
)
def test_the_builder_makes_what_was_asked_for(guarantee: DeliveryGuarantee, delivery: str) -> None:
    assert builder().set_delivery_guarantee(guarantee).build().delivery == delivery


def test_the_builder_promises_nothing_unless_told() -> None:
    assert builder().build().delivery == "none"


def test_the_builder_fills_everything_in() -> None:
    sink = (
        builder()
        .set_options(KafkaSinkOptions(pool=3))
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("mine")
        .set_property("transaction.timeout.ms", "60000")
        .set_property("group.id", "of another client")
        .set_property("compression.type", "lz4")
        .build()
    )
    assert isinstance(sink, KafkaSink)
    assert sink.options == KafkaSinkOptions(prefix="mine", pool=3, transaction_timeout_ms=60_000)
    assert sink.properties == {"compression.type": "lz4"}


@pytest.mark.spec("003/TC-07", "003/TC-19")
def test_the_builder_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"^kafka sink has no record serializer; set it with"):
        KafkaSink.builder().set_bootstrap_servers("b:1").build()
    with pytest.raises(ConfigError, match=r"^kafka sink has no brokers; expected their addresses"):
        KafkaSink.builder().set_record_serializer(SCHEMA).build()
    with pytest.raises(ConfigError, match=r"^kafka sink has no value schema; set it with"):
        KafkaRecordSerializationSchema.builder().set_topic("totals").build()
    with pytest.raises(ConfigError, match=r"^kafka sink has no topic; expected a name or a function"):
        KafkaRecordSerializationSchema("")


def test_the_older_producer_is_one_of_these() -> None:
    config = {"bootstrap.servers": "b:1"}
    assert FlinkKafkaProducer("totals", SimpleStringSchema(), config).delivery == "at-least-once"
    exactly = FlinkKafkaProducer("totals", SimpleStringSchema(), config, 4, Semantic.EXACTLY_ONCE)
    assert isinstance(exactly, KafkaSink)
    assert exactly.options.pool == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefix": ""}, "prefix is empty; expected a non-empty string, or None for a generated prefix"),
        (
            {"pool": 1},
            "pool is 1; expected at least 2: one transaction receives records while another waits for its commit",
        ),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms is 0; expected at least 1"),
        ({"on_branch": "x"}, "on_branch is 'x'; expected one of refuse, append"),
    ],
    ids=["prefix", "pool", "timeout", "branch"],
)
def test_options_that_make_no_sense_are_named(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^kafka sink {words}$"):
        KafkaSinkOptions(**options)


@pytest.mark.parametrize(
    ("key", "value"), [("acks", "1"), ("request.required.acks", "0"), ("enable.idempotence", "false")]
)
def test_a_property_that_would_break_the_guarantee_is_named_with_the_promise(key: str, value: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^kafka property '{key}' is '{value}'; expected '\w+', because .*; leave it"
    ):
        KafkaSink("b:1", SCHEMA, properties={key: value})
    assert PlainKafkaSink("b:1", SCHEMA, "none", {key: value}).delivery == "none"


def test_a_plain_sink_promises_what_it_can() -> None:
    with pytest.raises(
        ConfigError, match=r"^plain kafka sink delivery is 'exactly-once'; expected 'at-least-once' or"
    ):
        PlainKafkaSink("b:1", SCHEMA, "exactly-once")


def test_properties_are_not_shown_but_travel() -> None:
    sink = KafkaSink("b:1", SCHEMA, properties={"sasl.password": "hunter2", "acks": "-1"})
    assert "hunter2" not in repr(sink)
    assert pickle.loads(pickle.dumps(sink)).properties["sasl.password"] == "hunter2"


class ByLength(KafkaTopicSelector):
    def apply(self, data: Any) -> str:
        return f"topic-{len(data)}"


def test_a_selector_chooses_a_topic_for_each_record() -> None:
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(ByLength())
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    assert schema.one_topic is None
    assert list(map(schema.encoder(1_000), ["a", "bb"])) == [
        ("topic-1", b"a", b"a", -1, None),
        ("topic-2", b"bb", b"bb", -1, None),
    ]


def test_messages_have_headers_and_a_partition_if_asked() -> None:
    schema = KafkaRecordSerializationSchema(
        "totals", partition=lambda value: value % 2, headers=lambda value: (("trace", b"7"),)
    )
    assert schema.encoder(1_000)(3) == ("totals", b"3", None, 1, [("trace", b"7")])


def test_a_tombstone_has_no_value() -> None:
    schema = KafkaRecordSerializationSchema("totals", value=lambda value: None, key=str.encode)
    assert schema.encoder(1_000)("ada") == ("totals", None, b"ada", -1, None)


def test_a_record_that_cannot_be_written_is_named() -> None:
    schema = KafkaRecordSerializationSchema("totals", key=lambda record: record["user"].encode())
    with pytest.raises(
        RecordError, match=r"^kafka sink: cannot make the key of record \{'sum': 3\} \(KeyError: 'user'\)"
    ):
        schema.encoder(1_000)({"sum": 3})
    with pytest.raises(RecordError, match=r"SimpleStringSchema expected str"):
        SCHEMA.encoder(1_000)(3)
    placed = KafkaRecordSerializationSchema("totals", partition=lambda record: record["shard"])
    with pytest.raises(RecordError, match=r"^kafka sink: cannot make the partition of record \{'sum': 3\}"):
        placed.encoder(1_000)({"sum": 3})


def test_a_record_over_the_limit_is_named() -> None:
    with pytest.raises(
        RecordError,
        match=r"^kafka sink: the message of record 'xxx' has 3 bytes; expected at most 2; raise mess",
    ):
        SCHEMA.encoder(2)("xxx")
