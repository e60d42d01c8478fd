"""Structured Streaming with exactly-once sinks, and every connector as a table of Spark.

Example:
    from pyspark.sql import SparkSession
    from tidegate.spark import register

    spark = SparkSession.builder.getOrCreate()
    register(spark)
    orders.writeStream.format("tidegate").option("connector", "kafka")...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats `tidegate` and `tidegate-state` known to a session.

    Raises:
        ConfigError: the session is too old to write with Arrow.
        MissingExtraError: PySpark is not installed.
    """
    try:
        from tidegate.runtime.spark.datasource import StateDataSource, TidegateDataSource
    except ImportError as error:
        raise MissingExtraError(
            "the data sources need PySpark 4.1 or newer; run: pip install 'tidegate[spark]'"
        ) from error
    if not hasattr(spark, "dataSource"):
        raise ConfigError("this session takes no data sources written in Python; expected Spark 4.1 or newer")
    for each in (TidegateDataSource, StateDataSource):
        spark.dataSource.register(each)
