"""PyFlink's builders of Kafka sources.

Example:
    >>> from tidegate.connectors.formats import SimpleStringSchema
    >>> source = (
    ...     KafkaSourceBuilder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("orders", "refunds")
    ...     .set_group_id("billing")
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source.topics, source.start.kind
    (('orders', 'refunds'), 'earliest')
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Self

from tidegate.components import OptionsOf
from tidegate.connectors.formats import DeserializationSchema
from tidegate.connectors.kafka.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from tidegate.connectors.kafka.options import KafkaSourceOptions
from tidegate.connectors.kafka.reader import KafkaReader
from tidegate.connectors.kafka.serde import KafkaDeserializer, SchemaValues
from tidegate.connectors.kafka.source import KafkaSource
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.errors import ConfigError
from tidegate.options import altered
from tidegate.types import TypeInformation

__all__ = ["FlinkKafkaConsumer", "KafkaSourceBuilder"]

_DISCOVERY = "partition.discovery.interval.ms"
_COMMIT = "commit.offsets.on.checkpoint"
_RESET = "auto.offset.reset"


class KafkaSourceBuilder:
    """A Kafka source in the making."""

    def __init__(self) -> None:
        self._brokers = ""
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._partitions: frozenset[PartitionId] = frozenset()
        self._deserializer: KafkaDeserializer | None = None
        self._start = KafkaOffsetsInitializer.earliest()
        self._stop: KafkaOffsetsInitializer | None = None
        self._bounded = False
        self._group: str | None = None
        self._properties: dict[str, Any] = {}
        self._options = KafkaSourceOptions()

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Where the cluster is."""
        self._brokers = bootstrap_servers
        return self

    def set_group_id(self, group_id: str) -> Self:
        """Whom to tell how far the pipeline is."""
        self._group = group_id
        return self

    def set_topics(self, *topics: str) -> Self:
        """Read these."""
        self._topics = topics
        return self

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Read all topics whose full name matches."""
        self._pattern = topic_pattern
        return self

    def set_partitions(self, partitions: Collection[KafkaTopicPartition]) -> Self:
        """Read only these partitions."""
        self._partitions = frozenset(PartitionId(*partition) for partition in partitions)
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Where to begin."""
        self._start = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Where to end, though it counts as a source that does not."""
        self._stop, self._bounded = stopping_offsets_initializer, False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Where to end."""
        self._stop, self._bounded = stopping_offsets_initializer, True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Set the conversion of a message's value."""
        self._deserializer = SchemaValues(deserialization_schema)
        if deserialization_schema.skips_errors:
            self._options = altered(self._options, on_error="skip")
        return self

    def set_deserializer(self, deserializer: KafkaDeserializer) -> Self:
        """Set the conversion of a message, with key, headers and position if needed."""
        self._deserializer = deserializer
        return self

    def set_client_id_prefix(self, prefix: str) -> Self:
        """What brokers call the client."""
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> Self:
        """A setting of the client, or one of PyFlink's connector."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> Self:
        """Several of them."""
        self._properties |= props
        return self

    def set_options(self, options: KafkaSourceOptions) -> Self:
        """How to behave."""
        self._options = options
        return self

    def build(self) -> KafkaSource:
        """The source.

        Raises:
            ConfigError: a setting is missing or invalid.
        """
        if self._deserializer is None:
            raise ConfigError(
                "kafka source has no deserializer; set it with set_value_only_deserializer(...) or "
                "set_deserializer(...)"
            )
        properties = dict(self._properties)
        options, reset = _taken_out(properties, self._options)
        start = self._start
        if reset is not None and start.kind == "committed" and start.reset is KafkaOffsetResetStrategy.NONE:
            start = replace(start, reset=reset)
        return KafkaSource(
            brokers=properties.pop("bootstrap.servers", self._brokers),
            topics=self._topics,
            pattern=self._pattern,
            partitions=self._partitions,
            deserializer=self._deserializer,
            start=start,
            stop=self._stop,
            group=properties.pop("group.id", self._group),
            properties=properties,
            options=options,
            bounded=self._bounded,
        )


class FlinkKafkaConsumer(Source[KafkaSplit]):
    """PyFlink's older Kafka source, for `env.add_source`; begins where the group is.

    Example:
        >>> from tidegate.connectors.formats import SimpleStringSchema
        >>> consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
        >>> consumer.set_start_from_earliest().source.start.kind
        'earliest'
    """

    split_type = KafkaSplit
    bounded = False

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ) -> None:
        names = [topics] if isinstance(topics, str) else topics
        self.source = (
            KafkaSourceBuilder()
            .set_topics(*names)
            .set_properties({_RESET: "latest", _DISCOVERY: "-1", **properties})
            .set_value_only_deserializer(deserialization_schema)
            .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
            .build()
        )
        """What it stands for."""

    def set_start_from_earliest(self) -> Self:
        """Begin with the first record."""
        return self._from(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> Self:
        """Begin at the end."""
        return self._from(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Begin at a time in milliseconds."""
        return self._from(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        """Begin where the group is, which is the default."""
        return self._from(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST))

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Whether to tell the group how far the pipeline is."""
        options = altered(self.source.options, commit_offsets=commit_on_checkpoints)
        self.source = replace(self.source, options=options)
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Accepted and without effect: topics that are not asked for any more are left out."""
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the records if the schema says it."""
        return self.produced_type

    @property
    def produced_type(self) -> TypeInformation | None:
        """The same."""
        return self.source.produced_type

    def with_options(self, options_of: OptionsOf) -> FlinkKafkaConsumer:
        """The same source, with settings for the options that the program leaves open."""
        made = copy(self)
        made.source = self.source.with_options(options_of)
        return made

    def open_enumerator(
        self, context: EnumeratorContext[KafkaSplit], restored: bytes | None
    ) -> KafkaEnumerator:
        """Finds and deals partitions."""
        return self.source.open_enumerator(context, restored)

    def open_reader(self, context: ReaderContext) -> KafkaReader:
        """Reads partitions."""
        return self.source.open_reader(context)

    def _from(self, start: KafkaOffsetsInitializer) -> Self:
        self.source = replace(self.source, start=start)
        return self


def _taken_out(
    properties: dict[str, Any], options: KafkaSourceOptions
) -> tuple[KafkaSourceOptions, KafkaOffsetResetStrategy | None]:
    """Remove properties that are not the client's."""
    if (interval := properties.pop(_DISCOVERY, None)) is not None:
        options = altered(options, discovery_interval_ms=int(interval) if int(interval) > 0 else None)
    if (commit := properties.pop(_COMMIT, None)) is not None:
        options = altered(options, commit_offsets=str(commit).lower() == "true")
    reset = properties.pop(_RESET, None)
    return options, KafkaOffsetResetStrategy[str(reset).upper()] if reset is not None else None
