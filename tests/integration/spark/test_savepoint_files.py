"""The files of a canonical savepoint as Spark reads them, and savepoints of a job that runs on it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.waiting import until
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.state import ListStateDescriptor, ValueStateDescriptor
from tidegate.runtime.cli.main import main
from tidegate.runtime.client import JobClient
from tidegate.state_reader import StateReader
from tidegate.state_writer import StateWriter

pytestmark = pytest.mark.spark

TOTAL = ValueStateDescriptor("total", Types.LONG())
PAIR = ValueStateDescriptor("pair", Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
SEEN = ListStateDescriptor("seen", Types.STRING())


def test_spark_reads_each_state_as_a_table(session: SparkSession, tmp_path: Path) -> None:
    writer = StateWriter().put("accounts", TOTAL, [("ann", 520), ("bob", 700)])
    writer.put("accounts", PAIR, [("ann", ("eur", 0.5))]).put("accounts", SEEN, [("ann", ["p1", "p2"])])
    writer.write(tmp_path / "savepoint")
    states = session.read.option("basePath", str(tmp_path / "savepoint" / "keyed"))

    def table(state: str) -> list[tuple[object, ...]]:
        frame = states.parquet(str(tmp_path / "savepoint" / "keyed" / "operator=accounts" / state))
        return [tuple(row) for row in frame.selectExpr("operator", "key", "to_json(struct(value))").collect()]

    assert sorted(table("state=total")) == [
        ("accounts", "ann", '{"value":520}'),
        ("accounts", "bob", '{"value":700}'),
    ]
    assert table("state=pair") == [("accounts", "ann", '{"value":{"f0":"eur","f1":0.5}}')]
    assert len(table("state=seen")) == 2


@pytest.mark.usefixtures("spark")
def test_a_job_on_spark_takes_savepoints_and_embedded_goes_on_from_one(tmp_path: Path) -> None:
    def start(target: str, **more: Any) -> JobClient:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": target,
                "parallelism.default": 2,
                "pipeline.progress": "off",
                "state.checkpoints.dir": str(tmp_path / target),
                "state.savepoints.dir": str(tmp_path),
                "execution.checkpointing.interval": "100 ms",
                **more,
            }
        )
        numbers = env.from_source(GeneratorSource(int, count=None, rate_per_second=2_000)).uid("numbers")
        ones = numbers.map(lambda number: (number % 3, 1), Types.TUPLE([Types.LONG(), Types.LONG()]))
        counts = ones.key_by(lambda pair: pair[0]).sum(1).uid("counts")
        counts.map(list).sink_to(FileSink(str(tmp_path / "out")))
        return env.execute_async("counts")

    def written() -> list[str]:
        return [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]

    client = start("local[2]")
    place = client.trigger_savepoint().result(timeout=120)
    assert main(["savepoint", "counts", "--to", str(tmp_path / "asked")]) == 0
    assert len(list((tmp_path / "asked").glob("savepoint-*/_savepoint"))) == 1
    last = client.stop_with_savepoint(False, format_type="native").result(timeout=120)
    assert client.get_job_execution_result().result(timeout=120).state == "stopped"
    before = len(written())
    counts = Counter(json.loads(line)[0] for line in written())
    with StateReader(last) as reader:
        (state,) = reader.operators()["counts"]
        held = [row[1] for row in reader.table("counts", state)["value"].to_pylist()]
    assert sorted(held) == sorted(counts.values())
    with StateReader(place) as reader:
        assert list(reader.operators()) == ["counts"]

    # The output is that of a pipeline with its checkpoints elsewhere.
    take_over = {"execution.savepoint.path": last, "execution.take-over": True}
    client = start("inline", **take_over)
    until(lambda: len(written()) > before, job=client)
    client.stop().result(timeout=60)
    for key in range(3):
        mine = sorted(pair[1] for pair in map(json.loads, written()) if pair[0] == key)
        assert mine == list(range(1, len(mine) + 1))
