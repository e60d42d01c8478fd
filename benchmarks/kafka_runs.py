"""Programs between two topics of one broker, watched from outside: what they cost, and whether their output is right.

Whatever is measured reads the same input and writes to a topic of its own. It has ended when all that was due is committed
and the topic has stopped growing. What counts is the time from the first record there to the last, or from the moment the
program says that it saw its first one, and the CPU seconds of its processes up to the last commit, less those of a run with
next to no input.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.harness import Case, Round
from benchmarks.machine import tree_cpu_seconds
from tidegate.clock import new_id
from tidegate.testing.services import KafkaService

__all__ = ["PARTITIONS", "Arena", "Command", "Payments", "ours", "told"]

PARTITIONS = 4
QUIET_S = 7.0
"""Longer than the commit interval of every program."""
_UNSETTLED = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH)
LOOK_S = 0.1
PATIENCE_S = 900.0
MILLION = 1_000_000
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Payments:
    """An input topic of `records` payments of `users`, all equally often; `due` is what is to come of them."""

    topic: str
    records: int
    due: dict[str, tuple[int, int]] = field(repr=False)

    @property
    def kept(self) -> int:
        return sum(count for count, _ in self.due.values())


@dataclass(frozen=True)
class Command:
    """A program to run: it is told topics and broker in environment variables, and may stay when it has done all."""

    name: str
    arguments: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    passes_on: bool = False
    folder: Path = ROOT
    """Where it is run."""
    marks: bool = False
    """Whether it writes into the file `MARK` when it has its first record; it may be long before it writes anything."""


class Arena:
    """A broker, input topics, and runs of programs between them and topics of their own."""

    def __init__(self, kafka: KafkaService) -> None:
        self.address = kafka.address
        self._admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})

    def fill(self, records: int, users: int) -> Payments:
        """Make an input topic."""
        topic, chance = f"payments-{new_id(8)}", random.Random(1)
        self._create(topic)
        due: dict[str, tuple[int, int]] = {}
        producer = Producer(
            {"bootstrap.servers": self.address, "linger.ms": 20, "partitioner": "murmur2_random"}
        )
        for number in range(records):
            user, amount = f"u{number * 7919 % users}", chance.randint(1, 1000)
            text = f'{{"id":{number},"user":"{user}","amount":{amount},"ts":{number},"note":"abcdefghijklmnopqrstuvwxyz"}}'
            if amount % 10:
                count, total = due.get(user, (0, 0))
                due[user] = count + 1, total + amount
            while True:
                try:
                    producer.produce(topic, text, user)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        return Payments(topic, records, due)

    def case(self, command: Command, payments: Payments, few: Payments) -> Case:
        """A program as a case: what a million records cost, without its start, which a run over `few` payments shows now.

        Raises:
            RuntimeError: it does not run, or what it writes is wrong.
        """
        start, millions = self.run(command, few), payments.records / MILLION

        def run() -> Round:
            whole = self.run(command, payments)
            return Round(whole.wall_s / millions, (whole.cpu_s - start.cpu_s) / millions)

        arguments = {"records": payments.records, "users": len(payments.due), "start_cpu_s": start.cpu_s}
        return Case(command.name, run, arguments, MILLION)

    def run(self, command: Command, payments: Payments) -> Round:
        """Run it to its end, check what it wrote, and say what it took."""
        topic, folder = f"out-{new_id(8)}", Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        self._create(topic)
        variables = {
            "BS": self.address,
            "IN_TOPIC": payments.topic,
            "OUT_TOPIC": topic,
            "GROUP": topic,
            "PROC": "0",
            "MARK": str(folder / "mark"),
            "WORKDIR": str(folder),
            "PYTHONPATH": str(ROOT),
            **command.variables,
        }
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                command.arguments,
                cwd=command.folder,
                env={**os.environ, **variables},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                due = payments.records if command.passes_on else payments.kept
                took = self._watch(process, topic, due, Path(variables["MARK"]) if command.marks else None)
            except RuntimeError as error:
                raise RuntimeError(
                    f"{command.name}: {error}: {(folder / 'log').read_text()[-2000:]}"
                ) from None
            finally:
                _end(process)
        self._check(command, payments, topic)
        self._admin.delete_topics([topic])[topic].result()
        shutil.rmtree(folder)
        return took

    def _watch(self, process: subprocess.Popen[bytes], topic: str, due: int, mark: Path | None) -> Round:
        began = time.time()
        first = complete = 0.0
        size, grew, cpu = 0, began, 0.0
        while True:
            time.sleep(LOOK_S)
            ended, now = process.poll() is not None, time.time()
            written = self._size(topic, IsolationLevel.READ_UNCOMMITTED)
            if written > size:
                size, grew, cpu = written, now, tree_cpu_seconds(process.pid) or cpu
                first = first or now
                complete = complete or (now if size >= due else 0.0)
            done = size >= due and self._size(topic, IsolationLevel.READ_COMMITTED) == size
            if done and (ended or now - grew > QUIET_S):
                seen = min(map(float, mark.read_text().split())) if mark is not None else first
                return Round(complete - seen, cpu)
            if ended or now - began > PATIENCE_S:
                raise RuntimeError(f"wrote {size} of {due} in {now - began:.0f} s")

    def _size(self, topic: str, isolation: IsolationLevel) -> int:
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        while True:
            found = self._admin.list_offsets(asked, isolation_level=isolation)
            try:
                return sum(int(future.result().offset) for future in found.values())
            except KafkaException as error:
                # A new topic, or a broker that was too busy to say that it lives: what the client knows of leaders is old.
                if error.args[0].code() not in _UNSETTLED:
                    raise
                self._admin.list_topics(topic, timeout=10)

    def _check(self, command: Command, payments: Payments, topic: str) -> None:
        """Everything is there once, and the last total of each user is right."""
        count, newest = 0, dict[str, tuple[int, int]]()
        for value in self._committed(topic):
            count += 1
            if not command.passes_on:
                total = msgspec.json.decode(value)
                newest[total["user"]] = max(
                    newest.get(total["user"], (0, 0)), (total["count"], total["total"])
                )
        due = payments.records if command.passes_on else payments.kept
        if count != due or (not command.passes_on and newest != payments.due):
            raise RuntimeError(f"{command.name} wrote {count} records, or wrong ones; {due} were due")

    def _committed(self, topic: str) -> list[bytes]:
        settings = {"group.id": topic, "isolation.level": "read_committed", "enable.partition.eof": True}
        reader = Consumer({"bootstrap.servers": self.address, "enable.auto.commit": False, **settings})
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        values: list[bytes] = []
        ends = 0
        while ends < PARTITIONS:
            for message in reader.consume(10_000, 1):
                if message.error() is None:
                    values.append(message.value())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ends += 1
        reader.close()
        return values

    def _create(self, topic: str) -> None:
        self._admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
        while self._admin.list_topics(topic, timeout=10).topics[topic].error is not None:
            time.sleep(LOOK_S)


def ours(job: str, name: str, settings: dict[str, object]) -> Command:
    """Our program for a job."""
    module = "benchmarks.peers.kafka_ours"
    arguments = [sys.executable, "-P", "-m", module, job, json.dumps(settings)]
    return Command(name, arguments, passes_on=job == "pass")


def told(run: Callable[[], object], calls: int) -> Round:
    """What a case has measured by itself."""
    found = run()
    assert isinstance(found, Round)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, 9)
    process.wait()
