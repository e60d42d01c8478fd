"""Pytest fixtures: one broker and one database server for a whole test session.

Import the names into a `conftest.py`; a server starts when the first test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.testing.services.kafka import KafkaService
from tidegate.testing.services.postgres import PostgresService

__all__ = ["kafka", "postgres"]


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
