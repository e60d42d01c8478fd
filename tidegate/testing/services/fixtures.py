"""Pytest fixtures: one broker, one schema registry, one database server and one object store for a whole test session.

Import the names into a `conftest.py`; a server starts when the first test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.testing.services.kafka import KafkaService
from tidegate.testing.services.postgres import PostgresService
from tidegate.testing.services.s3 import S3Service
from tidegate.testing.services.schema_registry import SchemaRegistryService

__all__ = ["kafka", "postgres", "s3", "schema_registry"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaService]:
    """A running broker; take a topic of your own with `new_topic`."""
    with KafkaService() as service:
        yield service


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresService]:
    """A running Postgres server; drop the slots and tables a test makes."""
    with PostgresService() as service:
        yield service


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Service]:
    """A running S3 server; take a bucket of your own with `new_bucket`."""
    with S3Service() as service:
        yield service


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SchemaRegistryService]:
    """A running schema registry; take a subject of your own."""
    with SchemaRegistryService() as service:
        yield service
