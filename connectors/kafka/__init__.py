"""Topics of Kafka, read and written exactly once."""

from __future__ import annotations

from tidegate.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy as KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer as KafkaOffsetsInitializer,
    KafkaTopicPartition as KafkaTopicPartition,
)
from tidegate.connectors.kafka.options import KafkaSourceOptions as KafkaSourceOptions
from tidegate.connectors.kafka.serde import (
    JsonValues as JsonValues,
    KafkaDeserializer as KafkaDeserializer,
    KafkaRecord as KafkaRecord,
    KafkaRecords as KafkaRecords,
    RawValues as RawValues,
    StringValues as StringValues,
)
from tidegate.connectors.kafka.source import KafkaSource as KafkaSource
from tidegate.connectors.kafka.source_builder import (
    FlinkKafkaConsumer as FlinkKafkaConsumer,
    KafkaSourceBuilder as KafkaSourceBuilder,
)

__all__ = [
    "FlinkKafkaConsumer",
    "JsonValues",
    "KafkaDeserializer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecords",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaSourceOptions",
    "KafkaTopicPartition",
    "RawValues",
    "StringValues",
]
