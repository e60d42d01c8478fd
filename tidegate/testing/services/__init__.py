"""Real servers on loopback for tests and experiments; they are removed completely afterwards.

Example:
    with KafkaService() as kafka, PostgresService() as postgres:
        print(kafka.address, postgres.dsn)
"""

from __future__ import annotations

from tidegate.testing.services.kafka import KafkaService as KafkaService
from tidegate.testing.services.postgres import PostgresService as PostgresService
from tidegate.testing.services.s3 import S3Service as S3Service
from tidegate.testing.services.schema_registry import SchemaRegistryService as SchemaRegistryService
from tidegate.testing.services.service import Service as Service
from tidegate.testing.services.spark import SparkService as SparkService

__all__ = ["KafkaService", "PostgresService", "S3Service", "SchemaRegistryService", "Service", "SparkService"]
