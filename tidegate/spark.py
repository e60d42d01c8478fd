"""Spark Structured Streaming integration: exactly-once sinks, and every connector as a Spark data source.

Example:
    from pyspark.sql import SparkSession
    from tidegate.spark import register

    spark = SparkSession.builder.getOrCreate()
    register(spark)
    orders.writeStream.format("tidegate").option("connector", "kafka")...
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats `tidegate` and `tidegate-state` known to a session.

    Raises:
        ConfigError: the session is too old to write with Arrow, or the Python that it runs cannot import tidegate.
        MissingExtraError: PySpark is not installed.
    """
    try:
        from tidegate.runtime.spark.datasource import StateDataSource, TidegateDataSource
    except ImportError as error:
        raise MissingExtraError(
            "the data sources need PySpark 4.1 or newer; run: pip install 'tidegate[spark]'"
        ) from error
    if not hasattr(spark, "dataSource"):
        raise ConfigError("this session does not support Python data sources; expected Spark 4.1 or newer")
    _check_python(getattr(spark, "sparkContext", None))
    for each in (TidegateDataSource, StateDataSource):
        spark.dataSource.register(each)


def _check_python(context: SparkContext | None) -> None:
    """Spark uses the `python3` of PATH by default, which may be another one; checked on a local master."""
    if context is None or not context.master.startswith("local"):
        return
    tried = [context.pythonExec, "-P", "-c", "import tidegate"]
    try:
        failed = subprocess.run(tried, capture_output=True, text=True, check=False)
    except OSError as error:
        why = str(error)
    else:
        if failed.returncode == 0:
            return
        why = failed.stderr.strip().rpartition("\n")[2]
    raise ConfigError(
        f"spark runs {context.pythonExec}, which cannot import tidegate: {why}; start the session with PYSPARK_PYTHON="
        f"{sys.executable} in its environment"
    )
