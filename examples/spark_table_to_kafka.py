"""A table of Spark into a topic, once however often the job is run: a write has a name, and its records go together.

Needs Java 17; starts a broker of its own.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions as sql

from tidegate.spark import register
from tidegate.testing.services import KafkaService


def publish(spark: SparkSession, brokers: str, topic: str, directory: Path, day: str) -> None:
    """The prices of a day; run it again after a failure, or by mistake."""
    prices = spark.range(30).select(
        sql.col("id").cast("string").alias("key"),
        sql.to_json(sql.struct(sql.lit(day).alias("day"), "id", (sql.rand() * 100).alias("price"))).alias(
            "value"
        ),
    )
    (
        prices.write.format("tidegate")
        .option("connector", "kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("topic", topic)
        .option("id", f"prices of {day}")
        .option("decisions", str(directory / "decisions"))
        .mode("append")
        .save()
    )


def main(spark: SparkSession, brokers: str, topic: str, directory: Path) -> list[str]:
    """Two days, the first of them twice."""
    register(spark)
    for day in ("monday", "monday", "tuesday"):
        publish(spark, brokers, topic, directory, day)
    options = {"connector": "kafka", "kafka.bootstrap.servers": brokers, "subscribe": topic}
    day = sql.get_json_object(sql.col("value").cast("string"), "$.day").alias("day")
    days = spark.read.format("tidegate").options(**options).load().select(day).groupBy("day").count()
    return [f"{row['day']}: {row['count']} prices" for row in days.orderBy("day").collect()]


if __name__ == "__main__":
    import tempfile

    session = SparkSession.builder.master("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as place, KafkaService() as broker:
        print(*main(session, broker.address, broker.new_topic(), Path(place)), sep="\n")
    session.stop()
