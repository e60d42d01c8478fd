"""Kafka source and sink, exactly once."""

from __future__ import annotations

from tidegate.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy as KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer as KafkaOffsetsInitializer,
    KafkaTopicPartition as KafkaTopicPartition,
)
from tidegate.connectors.kafka.options import (
    KafkaSinkOptions as KafkaSinkOptions,
    KafkaSourceOptions as KafkaSourceOptions,
)
from tidegate.connectors.kafka.record_schema import (
    KafkaRecordSerializationSchema as KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder as KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector as KafkaTopicSelector,
    to_json as to_json,
)
from tidegate.connectors.kafka.serde import (
    ChangeValues as ChangeValues,
    JsonValues as JsonValues,
    KafkaDeserializer as KafkaDeserializer,
    KafkaRecord as KafkaRecord,
    KafkaRecords as KafkaRecords,
    RawValues as RawValues,
    SchemaValues as SchemaValues,
    StringValues as StringValues,
)
from tidegate.connectors.kafka.sink import KafkaSink as KafkaSink, PlainKafkaSink as PlainKafkaSink
from tidegate.connectors.kafka.sink_builder import (
    FlinkKafkaProducer as FlinkKafkaProducer,
    KafkaSinkBuilder as KafkaSinkBuilder,
    Semantic as Semantic,
)
from tidegate.connectors.kafka.source import KafkaSource as KafkaSource
from tidegate.connectors.kafka.source_builder import (
    FlinkKafkaConsumer as FlinkKafkaConsumer,
    KafkaSourceBuilder as KafkaSourceBuilder,
)

__all__ = [
    "ChangeValues",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "JsonValues",
    "KafkaDeserializer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaRecords",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSinkOptions",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaSourceOptions",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "PlainKafkaSink",
    "RawValues",
    "SchemaValues",
    "Semantic",
    "StringValues",
    "to_json",
]
