"""`tidegate kafka txn` on a real broker: what lingers is shown, committed or aborted, and nothing else is touched."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import SimpleStringSchema
from tidegate.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
    KafkaSource,
    StringValues,
)
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.runtime.cli.main import main
from tidegate.testing.services import KafkaService
from tidegate.twophase.spi import WriterContext

pytestmark = pytest.mark.service


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def topic(kafka: KafkaService) -> str:
    return kafka.new_topic()


@pytest.fixture(autouse=True)
def lingering(kafka: KafkaService, topic: str) -> Iterator[None]:
    """Two transactions of one prefix that nobody ends, and one of a prefix that begins with it."""
    writers = [
        opened(kafka, topic, topic, 0),
        opened(kafka, topic, topic, 1),
        opened(kafka, topic, f"{topic}-b", 0),
    ]
    yield
    for writer in writers:
        writer.close()


def opened(kafka: KafkaService, topic: str, prefix: str, subtask: int, *, prepares: bool = True) -> Any:
    sink = KafkaSink(
        kafka.address,
        KafkaRecordSerializationSchema(topic, SimpleStringSchema()),
        KafkaSinkOptions(prefix=prefix),
    )
    who = Subtask("sink", subtask)
    context = WriterContext(
        PipelineId("p"), OperatorUid("sink"), who, 2, LineageId("1"), Branch(0), "1", (), SYSTEM_CLOCK
    )
    writer = sink.open_writer(context)
    writer.write(Batch([f"{prefix}:{subtask}"]))
    if prepares:
        writer.prepare(CheckpointId(1))
    return writer


def run(kafka: KafkaService, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["kafka", "txn", *arguments, "--brokers", kafka.address])
    said = capsys.readouterr()
    return code, said.out, said.err


def visible(kafka: KafkaService, topic: str) -> list[str]:
    source = KafkaSource(
        kafka.address, (topic,), deserializer=StringValues(), stop=KafkaOffsetsInitializer.latest()
    )
    env = Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
    found: list[str] = env.from_source(source).execute_and_collect(limit=10)
    return sorted(found)


def test_what_lingers_is_shown_by_the_whole_id(
    kafka: KafkaService, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(kafka, capsys, "list", "--prefix", topic, "--json")
    rows = json.loads(out)
    assert (code, [row["transaction"] for row in rows]) == (0, [f"{topic}-0-0", f"{topic}-1-0"])
    assert {(row["partitions"], row["timeout_s"], row["prepared"], row["outcome"]) for row in rows} == {
        (f"{topic}:0", 900, True, "open")
    }
    code, out, _ = run(kafka, capsys, "list")
    assert f"{topic}-b-0-0" in out
    assert out.splitlines()[0].split()[:4] == ["transaction", "producer", "epoch", "open_s"]
    assert run(kafka, capsys, "list", "--prefix", "nobody's")[1] == "no open transactions\n"


def test_transactions_are_committed_by_id_and_aborted_by_prefix(
    kafka: KafkaService, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(kafka, capsys, "abort", "--prefix", topic, "--dry-run")
    assert (code, out.count("left open")) == (0, 2)
    code, out, _ = run(kafka, capsys, "commit", f"{topic}-1-0", "--yes", "--json")
    assert (code, [row["outcome"] for row in json.loads(out)]) == (0, ["committed"])
    code, out, _ = run(kafka, capsys, "abort", "--prefix", topic, "--yes")
    assert (code, out.count("aborted"), f"{topic}-0-0" in out) == (0, 1, True)
    assert run(kafka, capsys, "commit", f"{topic}-b-0-0", "--yes")[0] == 0
    assert visible(kafka, topic) == [f"{topic}-b:0", f"{topic}:1"]
    assert run(kafka, capsys, "abort", "--prefix", topic, "--yes")[:2] == (0, "no open transactions\n")


@pytest.mark.parametrize(("answer", "code", "outcome"), [("y", 0, "aborted"), ("", 1, "left open")])
def test_somebody_is_asked_before_anything_ends(
    kafka: KafkaService,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    outcome: str,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    found, out, _ = run(kafka, capsys, "abort", f"{topic}-0-0")
    assert (found, out.startswith(f"abort {topic}-0-0? [y/N] "), outcome in out) == (code, True, True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    found, _, said = run(kafka, capsys, "abort", f"{topic}-1-0")
    assert (found, said) == (
        2,
        "tidegate: tidegate kafka txn abort needs a confirmation; got no terminal; add --yes, or --dry-run to see what it would do\n",
    )


def test_what_is_not_ours_or_not_open_is_refused(
    kafka: KafkaService, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka.address, "transactional.id": f"{topic}-mine", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush()
    no_ids = tmp_path / "properties"
    no_ids.write_text("# of the client\nclient.id\n")
    for arguments, said in (
        (
            ("abort", f"{topic}-mine", "--yes"),
            "is not a transactional id of a sink; expected <prefix>-<subtask>-<number>",
        ),
        (("abort", f"{topic}-9-9", "--yes"), "has no open transaction; expected one that `list` shows"),
        (("abort", "--yes"), "needs either ids or --prefix; name the transactions to end"),
        (("list", "--properties", str(no_ids)), "line 2 of"),
        (("list", "--properties", str(tmp_path / "none")), "cannot be read"),
    ):
        code, _, err = run(kafka, capsys, *arguments)
        assert (code, said in err) == (2, True), err
    no_ids.write_text("client.id = me\n")
    assert f"{topic}-mine" not in run(kafka, capsys, "list", "--properties", str(no_ids))[1]
    producer.abort_transaction(30)


def test_what_is_not_prepared_is_not_committed(
    kafka: KafkaService, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.new_topic()
    writer = opened(kafka, topic, topic, 0, prepares=False)
    name = f"{topic}-0-0"
    until(lambda: json.loads(run(kafka, capsys, "list", "--prefix", topic, "--json")[1]))
    code, _, said = run(kafka, capsys, "commit", name, "--yes")
    assert (
        code,
        said.startswith(f"tidegate: transaction '{name}' is not prepared: it may not contain all records"),
    ) == (
        2,
        True,
    )
    assert run(kafka, capsys, "abort", name, "--yes")[0] == 0
    writer.close()
