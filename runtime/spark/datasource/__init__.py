"""Data sources of PySpark: every connector under one name, and the state of checkpoints as tables."""

from __future__ import annotations

from tidegate.runtime.spark.datasource.provider import TidegateDataSource as TidegateDataSource
from tidegate.runtime.spark.datasource.state import StateDataSource as StateDataSource

__all__ = ["StateDataSource", "TidegateDataSource"]
