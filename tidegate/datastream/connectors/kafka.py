"""Kafka connector, under PyFlink's module name."""

from tidegate.connectors.kafka import (
    FlinkKafkaConsumer as FlinkKafkaConsumer,
    FlinkKafkaProducer as FlinkKafkaProducer,
    KafkaOffsetResetStrategy as KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer as KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema as KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder as KafkaRecordSerializationSchemaBuilder,
    KafkaSink as KafkaSink,
    KafkaSinkBuilder as KafkaSinkBuilder,
    KafkaSource as KafkaSource,
    KafkaSourceBuilder as KafkaSourceBuilder,
    KafkaTopicPartition as KafkaTopicPartition,
    KafkaTopicSelector as KafkaTopicSelector,
    Semantic as Semantic,
)
from tidegate.connectors.spi import DeliveryGuarantee as DeliveryGuarantee

__all__ = [
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]
