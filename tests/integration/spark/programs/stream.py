"""One batch of a query with a shuffle and chance, from Spark's own source to Kafka: `stream.py topic directory options`."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession, functions as sql

from tidegate.runtime.spark.session import spark_context
from tidegate.spark import register

ROWS = 60


def run(session: SparkSession, checkpoint: str, options: dict[str, Any]) -> None:
    """Write the next rows; which of the two tasks gets a row is decided by chance."""
    source = session.readStream.format("rate-micro-batch").options(rowsPerBatch=ROWS, numPartitions=2)
    rows = source.load().select(sql.col("value").alias("id"), sql.rand().alias("chance"))
    mixed = rows.repartition(2, sql.floor(sql.col("chance") * 100))
    query = (
        mixed.select(sql.to_json(sql.struct("id", "chance")).alias("value"))
        .writeStream.format("tidegate")
        .options(**options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(checkpoint: str, options: str) -> None:
    with spark_context("local[2]", "stream") as context:
        session = SparkSession(context)
        register(session)
        run(session, checkpoint, json.loads(options))


if __name__ == "__main__":
    main(*sys.argv[1:])
