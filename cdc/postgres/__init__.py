"""Change data capture from Postgres: `PostgresSource`."""

from __future__ import annotations

from tidegate.cdc.postgres.options import PostgresOptions as PostgresOptions
from tidegate.cdc.postgres.source import PostgresSource as PostgresSource
from tidegate.cdc.postgres.source_builder import (
    PostgresSourceBuilder as PostgresSourceBuilder,
    StartupOptions as StartupOptions,
)

__all__ = ["PostgresOptions", "PostgresSource", "PostgresSourceBuilder", "StartupOptions"]
