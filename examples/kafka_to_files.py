"""Clicks from a topic of Kafka to files, exactly once, and an audit that proves it.

`python kafka_to_files.py host:9092` uses a cluster of yours and makes the topic there; without an address it starts a broker of
its own, which needs Java 17. The audit is what `tidegate audit` does: it reads the topic and the files as anybody could. In
the end a line of a file is lost on purpose, and found out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate import FileSink, StreamExecutionEnvironment
from tidegate.connectors.files import JsonLines
from tidegate.connectors.kafka import JsonValues, KafkaOffsetsInitializer, KafkaSource
from tidegate.runtime.cli.main import main as tidegate
from tidegate.testing.services import KafkaService

TOPIC = "clicks"
CLICKS = 200
PAGES = ("pot", "tea", "health-check")


def kept(click: dict[str, Any]) -> list[dict[str, Any]]:
    """What a click leads to, once in the pipeline and once for the audit."""
    return [] if click["page"] == "health-check" else [click]


def click_around(brokers: str) -> None:
    """Make the topic and fill it."""
    admin = AdminClient({"bootstrap.servers": brokers})
    try:
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()
    except KafkaException as error:
        print(error.args[0].str())
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(CLICKS):
        producer.produce(TOPIC, json.dumps({"id": number, "page": PAGES[number % 3]}))
    producer.flush()


def archive(brokers: str, place: Path) -> None:
    """The pipeline; it ends where the topic ends now."""
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    clicks = KafkaSource(
        brokers, topics=(TOPIC,), deserializer=JsonValues(), stop=KafkaOffsetsInitializer.latest()
    )
    env.from_source(clicks).flat_map(kept).sink_to(FileSink(place / "clicks", JsonLines()))
    env.execute("archive")


def audit(brokers: str, place: Path) -> int:
    """As `tidegate audit 'kafka://.../clicks?format=json' clicks --expect kafka_to_files.py:kept`."""
    sides = [f"kafka://{brokers}/{TOPIC}?format=json", str(place / "clicks")]
    return tidegate(["audit", *sides, "--expect", f"{__file__}:kept"])


def main(brokers: str, place: Path) -> None:
    click_around(brokers)
    archive(brokers, place)
    print(f"exit code {audit(brokers, place)}")
    victim = next(file for file in sorted((place / "clicks").glob("*.jsonl")) if file.stat().st_size)
    victim.write_text("".join(victim.read_text().splitlines(keepends=True)[1:]))
    print(f"exit code {audit(brokers, place)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        if len(sys.argv) > 1:
            main(sys.argv[1], Path(directory))
        else:
            with KafkaService() as broker:
                main(broker.address, Path(directory))
