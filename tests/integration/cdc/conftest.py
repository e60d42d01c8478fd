"""A database that each test finds empty."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.cdc.pipeline import Database
from tidegate.testing.services import PostgresService


@pytest.fixture(scope="session")
def server(postgres: PostgresService) -> Iterator[Database]:
    with psycopg.connect(postgres.dsn, autocommit=True) as admin:
        yield Database(postgres, admin)


@pytest.fixture
def database(server: Database) -> Iterator[Database]:
    """The server; what a test makes is dropped behind it."""
    yield server
    server.clear()
