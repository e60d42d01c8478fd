"""Loops from topic to topic by hand, exactly once, in the manner of the one in `baselines`: what passes messages on, and totals
whose state is in bare RocksDB."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import rocksdict
from confluent_kafka import Consumer, Producer

Work = Callable[[Any], tuple[bytes, bytes | None] | None]


def passed_on() -> Work:
    """Values as they are."""
    return lambda message: (message.value(), None)


def totals() -> Work:
    """Counts and sums of the users' payments."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(_cached())
    state = rocksdict.Rdict(str(Path(os.environ["WORKDIR"], "state")), options)
    unlogged = rocksdict.WriteOptions()
    unlogged.disable_wal = True
    state.set_write_options(unlogged)
    loads, dumps, row = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode, struct.Struct("<qq")

    def work(message: Any) -> tuple[bytes, bytes | None] | None:
        payment = loads(message.value())
        amount = payment["amount"]
        if amount % 10 == 0:
            return None
        user = payment["user"]
        key = user.encode()
        found = state.get(key)
        count, total = row.unpack(found) if found is not None else (0, 0)
        count, total = count + 1, total + amount
        state[key] = row.pack(count, total)
        return dumps({"user": user, "count": count, "total": total}), key

    return work


def _cached() -> rocksdict.BlockBasedOptions:
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(512 << 20))
    table.set_bloom_filter(10, False)
    return table


def main(work: Work) -> None:
    """Work for ever, one transaction each five seconds."""
    brokers, source, target, group = (os.environ[name] for name in ("BS", "IN_TOPIC", "OUT_TOPIC", "GROUP"))
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": 4 << 20,
            "queued.max.messages.kbytes": 262_144,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "transactional.id": group,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "transaction.timeout.ms": 60_000,
            "partitioner": "murmur2_random",
        }
    )
    producer.init_transactions()
    consumer.subscribe([source])
    producer.begin_transaction()
    committed, dirty = time.time(), False
    while True:
        for message in consumer.consume(10_000, 0.2):
            if message.error():
                raise RuntimeError(message.error())
            dirty = True
            result = work(message)
            while result is not None:
                try:
                    producer.produce(target, *result)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        if time.time() - committed >= 5:
            if dirty:
                producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
                )
                producer.commit_transaction()
                producer.begin_transaction()
            committed, dirty = time.time(), False


if __name__ == "__main__":
    main({"pass": passed_on, "totals": totals}[sys.argv[1]]())
