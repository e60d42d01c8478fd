"""Sales from CSV files to a topic of Kafka, exactly once, with the shop as key.

`python files_to_kafka.py host:9092` uses a cluster of yours and makes the topic there; without an address it starts a broker of
its own, which needs Java 17. A shop's sales go to one partition, so that consumers read them in order.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate import StreamExecutionEnvironment
from tidegate.connectors.files import CsvFormat, RecordFileSource
from tidegate.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from tidegate.testing.services import KafkaService

TOPIC = "sales"
SHOPS = ("graz", "linz", "wien")
SALES = 60


def make_topic(brokers: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers})
    try:
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()
    except KafkaException as error:
        print(error.args[0].str())


def write_files(folder: Path) -> None:
    for month in (1, 2):
        rows = [
            f"{SHOPS[n % 3]},{n},{n * 7 % 50}.5" for n in range(SALES * (month - 1) // 2, SALES * month // 2)
        ]
        (folder / f"month-{month}.csv").write_text("\n".join(["shop,number,euro", *rows, ""]))


def send(folder: Path, brokers: str) -> None:
    """The pipeline: it ends with the files."""
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    sales = env.from_source(RecordFileSource(str(folder), CsvFormat(types={"number": int, "euro": float})))
    schema = KafkaRecordSerializationSchema(TOPIC, key=lambda sale: sale["shop"].encode())
    sales.sink_to(KafkaSink(brokers, schema))
    result = env.execute("sales")
    print(f"{result.state}: {result.records} sales")


def read_back(brokers: str) -> dict[str, list[float]]:
    """What a reader of committed records finds."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(SALES):
        message = consumer.poll(30)
        found[message.key().decode()].append(json.loads(message.value())["euro"])
    consumer.close()
    return found


def main(brokers: str) -> None:
    make_topic(brokers)
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        send(Path(folder), brokers)
    for shop, amounts in sorted(read_back(brokers).items()):
        print(f"{shop}: {len(amounts)} sales, {sum(amounts):.2f} euro")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with KafkaService() as broker:
            main(broker.address)
