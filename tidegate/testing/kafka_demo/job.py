"""Job of the Kafka demo: payments -> booked ones -> running totals per account -> another topic, exactly once.

It does not know that it will be killed. Started again with the same arguments it continues from its newest checkpoint.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tidegate.connectors.kafka import JsonValues, PlainKafkaSink
from tidegate.connectors.spi import Sink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from tidegate.runtime.cli.demo.job import RunningTotals
from tidegate.runtime.cli.demo.payments import Payment
from tidegate.testing.kafka_demo.layout import ends

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the pipeline until all payments are processed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--payments", required=True, help="the topic to read")
    parser.add_argument("--totals", required=True, help="the topic to write")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--interval-ms", type=int, required=True, help="time between two checkpoints")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument(
        "--broken", action="store_true", help="write without transactions, as most programs do"
    )
    asked = parser.parse_args(arguments)
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "state.backend.type": "rocksdb",
            "state.checkpoints.dir": str(asked.directory / "state"),
            "parallelism.default": 2,
            "pipeline.progress": "json",
        }
    ).enable_checkpointing(asked.interval_ms)
    stops = {
        KafkaTopicPartition(asked.payments, partition): end for partition, end in ends(asked.records).items()
    }
    payments = KafkaSource(
        asked.brokers,
        topics=(asked.payments,),
        deserializer=JsonValues(Payment),
        stop=KafkaOffsetsInitializer.offsets(stops),
    )
    schema = KafkaRecordSerializationSchema(asked.totals, key=lambda total: total["account"].encode())
    sink: Sink = KafkaSink(asked.brokers, schema)
    if asked.broken:
        sink = PlainKafkaSink(asked.brokers, schema)
    (
        env.from_source(payments, source_name="payments")
        .filter(lambda payment: payment.state == "booked")
        .key_by(lambda payment: payment.account)
        .process(RunningTotals())
        .sink_to(sink)
    )
    env.execute("demo")


if __name__ == "__main__":
    main()
