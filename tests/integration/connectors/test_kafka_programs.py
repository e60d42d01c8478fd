"""Programs of the acceptance list that read Kafka, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.waiting import PATIENCE_S, until
from tidegate.common import Duration, SimpleStringSchema, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, TextLines
from tidegate.connectors.kafka import (
    FlinkKafkaConsumer,
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    StringValues,
)
from tidegate.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    MapFunction,
    MapStateDescriptor,
    SinkFunction,
    StreamExecutionEnvironment as Env,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

MODEL = MapStateDescriptor("model", Types.STRING(), Types.LONG())


@pytest.fixture(params=["inline-2", "embedded-2", "embedded-3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    target, _, parallelism = request.param.partition("-")
    return Env.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": parallelism,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "100 ms",
            "pipeline.progress": "off",
        }
    )


@pytest.fixture(autouse=True)
def carried_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import this module."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def produce(kafka: KafkaService, topic: str, values: Iterable[str]) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0


def lines(directory: Path) -> list[str]:
    return sorted(line for path in directory.glob("*.txt") for line in path.read_text().splitlines())


class Where(MapFunction):
    """Adds the subtask it runs in."""

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: str) -> str:
        return f"{value} {self.index}"


@pytest.mark.spec("000/EX-09")
def test_behind_a_kafka_source_every_flat_map_feeds_all_three_maps(
    kafka: KafkaService, anywhere: Env, tmp_path: Path
) -> None:
    topic = kafka.new_topic(4)
    numbers = [str(number) for number in range(60)]
    produce(kafka, topic, numbers)
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), {"bootstrap.servers": kafka.address})
    stream = anywhere.add_source(consumer.set_start_from_earliest()).set_parallelism(2).rebalance()
    flat = stream.flat_map(lambda value: [value]).set_parallelism(2).map(Where()).set_parallelism(2)
    flat.rebalance().map(Where()).set_parallelism(3).sink_to(FileSink(tmp_path / "out", TextLines()))
    client = anywhere.execute_async("rebalanced")
    until(lambda: len(lines(tmp_path / "out")), equals=len(numbers), job=client)
    client.cancel().result(PATIENCE_S)

    found = [line.split() for line in lines(tmp_path / "out")]
    assert sorted(number for number, *_ in found) == sorted(numbers)
    assert {(sender, receiver) for _, sender, receiver in found} == {
        (str(sender), str(receiver)) for sender in range(2) for receiver in range(3)
    }


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value["amount"])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Lines(SinkFunction):
    def __init__(self, file: Path) -> None:
        self.file = file

    def invoke(self, value: Any, context: Any) -> None:
        with self.file.open("a") as file:
            file.write(f"{value}\n")


@pytest.mark.spec("003/EX-03")
def test_a_windowed_job_over_kafka_has_four_operators(
    kafka: KafkaService, anywhere: Env, tmp_path: Path
) -> None:
    topic = kafka.new_topic()
    produce(
        kafka,
        topic,
        [
            json.dumps({"id": "a", "amount": amount, "at": at})
            for amount, at in [(1, 0), (2, 9_999), (4, 10_000)]
        ],
    )
    source = KafkaSource(
        kafka.address, (topic,), deserializer=StringValues(), stop=KafkaOffsetsInitializer.latest()
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda message, _: json.loads(message)["at"]
    )
    events = (
        anywhere.from_source(source, times, "kafka").set_parallelism(1).map(json.loads).set_parallelism(1)
    )
    windows = events.key_by(lambda event: event["id"]).window(
        TumblingEventTimeWindows.of(Duration.of_seconds(10))
    )
    windows.aggregate(Total()).add_sink(Lines(tmp_path / "totals"))

    plan = json.loads(anywhere.get_execution_plan())["nodes"]
    anywhere.execute()

    assert [(node["type"].partition("(")[0], node["pact"]) for node in plan] == [
        ("Source: kafka", "Data Source"),
        ("Map", "Operator"),
        ("Window", "Operator"),
        ("Sink: FunctionSink", "Data Sink"),
    ]
    assert sorted(int(line) for line in (tmp_path / "totals").read_text().split()) == [3, 4]


class Infer(BroadcastProcessFunction):
    """Multiplies by the newest model; leaves a file for each model and subtask."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        yield f"{self.index} {value * ctx.get_broadcast_state(MODEL).get('model')}"

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(MODEL).put("model", value)
        (self.marks / f"model-{value}-{self.index}").touch()


@pytest.mark.spec("004/AX-018")
def test_a_model_from_one_topic_is_used_by_every_subtask_on_data_from_another(
    kafka: KafkaService, anywhere: Env, tmp_path: Path
) -> None:
    models, data = kafka.new_topic(1, "models"), kafka.new_topic(1, "data")
    everywhere = anywhere.get_config().get_parallelism()

    def read(topic: str) -> Any:
        source = KafkaSource(kafka.address, (topic,), deserializer=JsonValues(int))
        return anywhere.from_source(source, source_name=topic).set_parallelism(1)

    inferred = read(data).rebalance().connect(read(models).broadcast(MODEL)).process(Infer(tmp_path))
    inferred.sink_to(FileSink(tmp_path / "out", TextLines()))
    client = anywhere.execute_async("inference")
    expected: list[int] = []
    for model, values in ((10, range(1, 7)), (100, range(7, 13))):
        produce(kafka, models, [str(model)])
        told = f"model-{model}-*"
        until(lambda told=told: len(list(tmp_path.glob(told))), equals=everywhere, job=client)  # type: ignore[misc]
        produce(kafka, data, map(str, values))
        expected += [model * value for value in values]
        until(
            lambda: sorted(int(line.split()[1]) for line in lines(tmp_path / "out")),
            equals=sorted(expected),
            job=client,
        )
    client.cancel().result(PATIENCE_S)

    assert {line.split()[0] for line in lines(tmp_path / "out")} == {str(n) for n in range(everywhere)}


@pytest.mark.spec("003/TC-04")
def test_a_topic_is_written_by_batch_jobs_and_streams_and_read_without_an_end(
    kafka: KafkaService, tmp_path: Path
) -> None:
    topic, output = kafka.new_topic(2, "modes"), tmp_path / "output"
    output.mkdir()
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema())
    here = {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 2}
    reading = Env.get_execution_environment({**here, "execution.checkpointing.interval": "100 ms"})
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues())
    reading.from_source(source).sink_to(FileSink(output, TextLines()))
    reader = reading.execute_async()

    written: list[str] = []
    for mode in ("BATCH", "STREAMING"):
        writing = Env.get_execution_environment({**here, "execution.runtime-mode": mode})
        new = [f"{mode} {number}" for number in range(100)]
        writing.from_collection(new).sink_to(KafkaSink(kafka.address, schema))
        writing.execute(f"{topic} {mode}")
        written += new
        until(lambda: lines(output), equals=sorted(written), job=reader)
    assert not reader.get_job_execution_result().done()
    reader.cancel().result(timeout=PATIENCE_S)
