"""Whose a prefix of transactional ids is, on a real broker, for as long as a job runs; and one prefix on two clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.conformance.test_kafka import read_committed
from tests.integration.connectors.test_kafka_sink import COMMITTER, WRITER, prepared, sink_of
from tests.waiting import PATIENCE_S, until
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.kafka.writer import KafkaWork
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint import claims
from tidegate.testing.services import KafkaService
from tidegate.twophase.spi import CommitAnswer

pytestmark = pytest.mark.service

OFFSETS = "__consumer_offsets"
OTHER = replace(COMMITTER, pipeline=PipelineId("refunds"))


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[KafkaService, KafkaService]]:
    """Two clusters that have not counted any producers yet."""
    with KafkaService() as east, KafkaService() as west:
        yield east, west


def noted(kafka: KafkaService, prefix: str) -> int:
    """How often a claim on a prefix was written by now, while others may be written."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": prefix,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    numbers = consumer.list_topics(OFFSETS, PATIENCE_S).topics[OFFSETS].partitions
    ends = {n: consumer.get_watermark_offsets(TopicPartition(OFFSETS, n), PATIENCE_S)[1] for n in numbers}
    left = {number for number, end in ends.items() if end > 0}
    consumer.assign([TopicPartition(OFFSETS, number, 0) for number in left])
    found = 0
    while left:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "the broker does not answer"
        number, error = message.partition(), message.error()
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error
        if error is not None or message.offset() + 1 >= ends[number]:
            left.discard(number)
        if error is None and f"{prefix}.tidegate".encode() in (message.key() or b""):
            found += 1
    consumer.close()
    return found


def test_a_claim_that_is_there_is_written_again_and_so_outlives_the_retention_of_offsets(
    kafka: KafkaService,
) -> None:
    topic = kafka.new_topic()
    committer = sink_of(kafka, topic).open_committer(COMMITTER)
    committer.claim()
    once = noted(kafka, topic)

    committer.claim()
    committer.close()

    assert once > 0
    assert noted(kafka, topic) > once


def test_a_running_pipeline_does_not_take_a_claim_back(kafka: KafkaService) -> None:
    topic = kafka.new_topic()
    sink = sink_of(kafka, topic, take_over=True)
    starting = sink.open_committer(OTHER)
    starting.claim()

    running = sink.open_committer(replace(COMMITTER, running=True))
    with pytest.raises(ConfigError, match="belong to pipeline 'refunds', operator 'sink'"):
        running.claim()
    starting.close()
    running.close()


def test_a_job_without_records_renews_its_claim_and_fails_once_it_is_another_pipelines(
    kafka: KafkaService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RENEWAL_S", 0.2)
    topic = kafka.new_topic()
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "execution.take-over": True,
            "parallelism.default": 1,
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(tmp_path / "state"),
        }
    )
    quiet = env.from_source(GeneratorSource(str, count=10**9, rate_per_second=10.0)).filter(lambda _: False)
    quiet.sink_to(sink_of(kafka, topic))
    client = env.execute_async("quiet")
    until(lambda: noted(kafka, topic) > 0, job=client)
    before = noted(kafka, topic)
    until(lambda: noted(kafka, topic) >= before + 3, job=client)

    taking, result = (
        sink_of(kafka, topic, take_over=True).open_committer(OTHER),
        client.get_job_execution_result(),
    )

    def taken() -> bool:
        # A renewal that had looked already writes its claim over this one.
        taking.claim()
        return result.done()

    until(taken)
    taking.close()
    with pytest.raises(
        ConfigError, match=rf"that start with '{topic}' belong to pipeline 'refunds', operator 'sink'"
    ):
        result.result()


def test_work_of_two_clusters_under_one_prefix_is_not_confused(
    clusters: tuple[KafkaService, KafkaService],
) -> None:
    topics = [cluster.new_topic() for cluster in clusters]
    sinks = [
        sink_of(cluster, topic, prefix="billing") for cluster, topic in zip(clusters, topics, strict=True)
    ]
    writers = [sink.open_writer(WRITER) for sink in sinks]
    committers = [sink.open_committer(COMMITTER) for sink in sinks]
    works = []
    for writer, record in zip(writers, ("east", "west"), strict=True):
        writer.write(Batch([record]))
        works.append(prepared(writer, 1))
    named = [msgspec.msgpack.decode(work.payload, type=KafkaWork) for work in works]
    assert named[0].key == named[1].key, "both clusters count producers from the same number"
    assert named[0].cluster != named[1].cluster

    assert committers[0].commit(works[:1]) == [CommitAnswer.COMMITTED]
    seen = [read_committed(cluster, topic, 1) for cluster, topic in zip(clusters, topics, strict=True)]
    assert seen == [["east"], []]
    assert committers[1].commit(works[1:]) == [CommitAnswer.COMMITTED]
    assert read_committed(clusters[1], topics[1], 1) == ["west"]
    for writer, committer in zip(writers, committers, strict=True):
        writer.close()
        committer.close()


def test_work_of_another_cluster_is_refused_by_both_names(
    clusters: tuple[KafkaService, KafkaService],
) -> None:
    """The sink of a pipeline was given other brokers while work in the first cluster was decided and not visible."""
    east, west = (sink_of(cluster, cluster.new_topic(), prefix="moved") for cluster in clusters)
    writer = east.open_writer(WRITER)
    writer.write(Batch(["east"]))
    work = prepared(writer, 1)
    writer.close()  # so that it is committed over the wire

    moved = west.open_committer(COMMITTER)
    with pytest.raises(
        ConfigError,
        match=r"^kafka sink: transaction 'moved-0-0' of checkpoint 1 is in cluster '\S+'; got brokers .* of cluster '\S+'; "
        r"start with the previous brokers, stop the job, then change the brokers$",
    ):
        moved.commit([work])
    moved.close()
    back = east.open_committer(COMMITTER)
    assert back.commit([work]) == [CommitAnswer.COMMITTED]
    back.close()
