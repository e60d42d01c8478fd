"""A stream of Spark, with a shuffle and running sums, into a topic exactly once.

`python spark_orders_to_kafka.py host:9092` uses a cluster of yours; without an address it starts a broker of its own.
Needs Java 17. Kill it whenever you like and start it again: readers of committed records see each sum once.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession, functions as sql

from tidegate.spark import register
from tidegate.testing.services import KafkaService


def add_up(spark: SparkSession, brokers: str, topic: str, directory: Path) -> None:
    """What each user has spent, told again with each batch."""
    orders = spark.readStream.schema("user STRING, cents BIGINT").json(str(directory / "orders"))
    sums = orders.groupBy("user").agg(sql.sum("cents").alias("cents"))
    query = (
        sums.select(sql.col("user").alias("key"), sql.to_json(sql.struct("user", "cents")).alias("value"))
        .writeStream.format("tidegate")
        .option("connector", "kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("topic", topic)
        .option("prefix", topic)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(spark: SparkSession, brokers: str, topic: str, directory: Path) -> list[str]:
    """Two batches, and what readers of committed records see of them."""
    register(spark)
    orders = directory / "orders"
    orders.mkdir(parents=True)
    for number, line in enumerate(('{"user": "ada", "cents": 300}', '{"user": "ada", "cents": 20}')):
        (orders / f"{number}.json").write_text(line + "\n")
        add_up(spark, brokers, topic, directory)
    options = {"connector": "kafka", "kafka.bootstrap.servers": brokers, "subscribe": topic}
    written = spark.read.format("tidegate").options(**options).load()
    rows = written.orderBy("offset").select(sql.col("value").cast("string")).collect()
    return [row.value for row in rows]


if __name__ == "__main__":
    import tempfile

    session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        if len(sys.argv) > 1:
            print(*main(session, sys.argv[1], "spending", Path(place)), sep="\n")
        else:
            with KafkaService() as broker:
                print(*main(session, broker.address, broker.new_topic(), Path(place)), sep="\n")
    session.stop()
