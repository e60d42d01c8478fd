"""Kafka, under PyFlink's module name."""

from tidegate.connectors.kafka import (
    FlinkKafkaConsumer as FlinkKafkaConsumer,
    KafkaOffsetResetStrategy as KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer as KafkaOffsetsInitializer,
    KafkaSource as KafkaSource,
    KafkaSourceBuilder as KafkaSourceBuilder,
    KafkaTopicPartition as KafkaTopicPartition,
)

__all__ = [
    "FlinkKafkaConsumer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]
