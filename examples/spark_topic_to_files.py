"""A topic of Kafka into files, exactly once: at most so many records a batch, and no more than is there now.

Needs Java 17; starts a broker of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession, functions as sql

from tidegate.spark import register
from tidegate.testing.services import KafkaService

CLICKS = 50


def click(brokers: str, topic: str) -> None:
    """Fill the topic."""
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(CLICKS):
        producer.produce(
            topic, json.dumps({"id": number, "page": f"page {number % 7}"}), f"user {number % 5}"
        )
    producer.flush()


def keep(spark: SparkSession, brokers: str, topic: str, directory: Path) -> list[int]:
    """Copy what is there; returns how many records each batch had."""
    clicks = (
        spark.readStream.format("tidegate")
        .option("connector", "kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("maxRecordsPerTrigger", 20)
        .load()
    )
    click = sql.from_json(sql.col("value").cast("string"), "id BIGINT, page STRING").alias("click")
    query = (
        clicks.select(click)
        .select("click.*")
        .writeStream.format("tidegate")
        .option("connector", "files")
        .option("path", str(directory / "clicks"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [rows for progress in query.recentProgress if (rows := progress["numInputRows"])]


def main(spark: SparkSession, brokers: str, topic: str, directory: Path) -> list[str]:
    """Copy a topic, twice: the second time there is nothing new."""
    register(spark)
    click(brokers, topic)
    batches = [keep(spark, brokers, topic, directory) for _ in range(2)]
    lines = [
        line for file in (directory / "clicks").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    ids = {json.loads(line)["id"] for line in lines}
    return [f"{sum(found)} clicks in {len(found)} batches" for found in batches] + [
        f"{len(lines)} lines, {len(ids)} clicks"
    ]


if __name__ == "__main__":
    import tempfile

    session = SparkSession.builder.master("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as place, KafkaService() as broker:
        print(*main(session, broker.address, broker.new_topic(), Path(place)), sep="\n")
    session.stop()
