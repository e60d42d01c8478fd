"""What can be said about a Kafka source, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tidegate.common import SimpleStringSchema
from tidegate.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceOptions,
    KafkaTopicPartition,
    PlainKafkaSink,
)
from tidegate.connectors.kafka.split import PartitionId
from tidegate.errors import ConfigError
from tidegate.types import Types


def builder() -> Any:
    return (
        KafkaSource.builder().set_bootstrap_servers("b:1").set_value_only_deserializer(SimpleStringSchema())
    )


def test_what_to_read_is_said_once() -> None:
    for more in (
        {},
        {"topics": ("a",), "pattern": "a"},
        {"pattern": "a", "partitions": frozenset({PartitionId("a", 0)})},
    ):
        with pytest.raises(ConfigError, match=r"^kafka source: set exactly one of topics, pattern and"):
            KafkaSource("b:1", **more)


def test_brokers_are_needed() -> None:
    with pytest.raises(ConfigError, match=r"^kafka source has no brokers; expected their addresses, such as"):
        KafkaSource("", ("a",))


@pytest.mark.parametrize(
    ("key", "value"),
    [("enable.auto.commit", "true"), ("enable.auto.offset.store", True), ("auto.offset.reset", "earliest")],
)
def test_a_property_that_would_break_the_guarantee_is_named_with_the_promise(key: str, value: Any) -> None:
    with pytest.raises(
        ConfigError, match=rf"^kafka property '{key}' is '\w+'; expected '\w+', because .*; leave it out$"
    ):
        KafkaSource("b:1", ("a",), properties={key: value})


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("bootstrap.servers", "the argument brokers"),
        ("group.id", "the argument group of a source"),
        ("transactional.id", "the option prefix, "),
        ("transaction.timeout.ms", "the option transaction_timeout_ms, "),
        ("stats_cb", "no value, because the connector uses this callback"),
    ],
)
def test_a_property_that_would_be_overridden_says_where_it_belongs(key: str, where: str) -> None:
    schema = KafkaRecordSerializationSchema("a")
    for make in (
        lambda: KafkaSource("b:1", ("a",), properties={key: "1"}),
        lambda: KafkaSink("b:1", schema, properties={key: "1"}),
        lambda: PlainKafkaSink("b:1", schema, properties={key: "1"}),
    ):
        with pytest.raises(
            ConfigError, match=rf"^kafka property '{key}' cannot be set in properties; expected {where}"
        ):
            make()


def test_a_property_that_says_what_holds_anyway_is_fine() -> None:
    KafkaSource("b:1", ("a",), properties={"enable.auto.commit": "false"})


def test_properties_are_not_shown_but_travel() -> None:
    source = KafkaSource("b:1", ("a",), properties={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(source)
    assert pickle.loads(pickle.dumps(source)).properties == {"sasl.password": "hunter2"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_error": "ignore"}, "source on_error is 'ignore'; expected one of fail, skip, dead_letter"),
        ({"on_topic_change": "x"}, "source on_topic_change is 'x'; expected one of fail, drop, reset"),
        ({"discovery_interval_ms": 0}, "source discovery_interval_ms is 0; expected at least 1, or None"),
    ],
    ids=["on_error", "on_topic_change", "discovery"],
)
def test_options_that_make_no_sense_are_named(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^kafka {words}$"):
        KafkaSourceOptions(**options)


def test_the_builder_fills_everything_in() -> None:
    source = (
        builder()
        .set_partitions({KafkaTopicPartition("a", 1)})
        .set_group_id("g")
        .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
        .set_unbounded(KafkaOffsetsInitializer.timestamp(5))
        .set_client_id_prefix("me")
        .set_properties({"partition.discovery.interval.ms": "250", "commit.offsets.on.checkpoint": "false"})
        .set_property("auto.offset.reset", "earliest")
        .build()
    )
    assert (source.partitions, source.group, source.bounded) == (
        frozenset({PartitionId("a", 1)}),
        "g",
        False,
    )
    assert source.start.reset is KafkaOffsetResetStrategy.EARLIEST
    assert source.stop.timestamp_ms == 5
    assert source.properties == {"client.id": "me"}
    assert source.options == KafkaSourceOptions(discovery_interval_ms=250, commit_offsets=False)
    assert source.produced_type == Types.STRING()


@pytest.mark.spec("003/TC-07")
def test_the_builder_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"^kafka source has no deserializer; set it with set_"):
        KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("a").build()


@pytest.mark.spec("003/TC-19")
def test_topic_and_brokers_must_be_said() -> None:
    source = builder().set_bootstrap_servers("b:1,c:2").set_topics("a").build()
    assert (source.brokers, source.topics, source.group) == ("b:1,c:2", ("a",), None)
    with pytest.raises(ConfigError, match=r"^kafka source: set exactly one of topics"):
        builder().build()
    with pytest.raises(ConfigError, match=r"^kafka source has no brokers"):
        builder().set_bootstrap_servers("").set_topics("a").build()


def test_a_bounded_source_is_one_that_stops() -> None:
    assert builder().set_topics("a").set_bounded(KafkaOffsetsInitializer.latest()).build().bounded
    assert KafkaSource("b:1", ("a",), stop=KafkaOffsetsInitializer.latest()).bounded
    assert not builder().set_topic_pattern("a.*").build().bounded


@pytest.mark.spec("003/TC-21")
def test_the_older_consumer_begins_where_its_group_is_and_can_be_told_otherwise() -> None:
    consumer = FlinkKafkaConsumer(
        ["a", "b"], SimpleStringSchema(), {"bootstrap.servers": "b:1", "group.id": "g"}
    )
    assert (consumer.source.topics, consumer.source.group) == (("a", "b"), "g")
    assert (consumer.source.start.kind, consumer.source.start.reset.name) == ("committed", "LATEST")
    assert consumer.source.options.discovery_interval_ms is None
    assert consumer.set_start_from_timestamp(7).source.start.timestamp_ms == 7
    assert consumer.set_start_from_latest().source.start.kind == "latest"
    assert consumer.set_start_from_group_offsets().source.start.kind == "committed"
    assert not consumer.set_commit_offsets_on_checkpoints(False).source.options.commit_offsets
    assert consumer.disable_filter_restored_partitions_with_subscribed_topics() is consumer
    assert consumer.get_produced_type() == Types.STRING()
