"""Generated rows, printed as changes, and discarded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.waiting import until
from tidegate.connectors.blackhole import BlackHoleSink
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import (
    Ascending,
    DataGenSource,
    GeneratorSource,
    RandomFloat,
    RandomInt,
    RandomText,
)
from tidegate.connectors.print import PrintSink
from tidegate.datastream import DataStream, StreamExecutionEnvironment

FIELDS = {"f0": Ascending(1, 1_000), "f1": RandomInt(1, 1_000), "f2": RandomText(10), "f3": RandomFloat()}


@pytest.mark.spec("003/EX-33", "003/TC-41", "003/TC-42", "003/TC-38")
def test_every_row_is_printed_as_an_insert_and_the_black_hole_prints_nothing(
    anywhere: StreamExecutionEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = anywhere.from_source(DataGenSource(FIELDS), source_name="generated")
    rows.sink_to(PrintSink(changes=True))
    rows.sink_to(BlackHoleSink())

    anywhere.execute()

    lines = capfd.readouterr().out.splitlines()
    found = [re.fullmatch(r"\d> \+I\((\d+),(\d+),([0-9a-f]{10}),0\.\d+(?:e-\d+)?\)", line) for line in lines]
    assert all(found), lines[:3]
    assert sorted(int(each[1]) for each in found if each) == list(range(1, 1_001))
    assert all(1 <= int(each[2]) <= 1_000 for each in found if each)


def test_a_plain_function_is_called_with_each_record(
    anywhere: StreamExecutionEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    anywhere.from_collection(["a", "b"]).add_sink(lambda record: print(f"got {record}"))

    anywhere.execute()

    assert sorted(capfd.readouterr().out.split("\n")) == ["", "got a", "got b"]


@pytest.mark.spec("003/SRC-03")
def test_one_source_serves_batch_jobs_streams_that_end_and_streams_that_do_not(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    anywhere.configure({"execution.checkpointing.interval": "50 ms"})

    def numbers(count: int | None) -> DataStream[int]:
        return anywhere.from_source(GeneratorSource(int, count, rate_per_second=1_000))

    for mode in ("BATCH", "STREAMING"):
        anywhere.configure({"execution.runtime-mode": mode})
        assert sorted(numbers(100).execute_and_collect()) == list(range(100))
    numbers(None).sink_to(FileSink(str(tmp_path)))
    client = anywhere.execute_async()
    until(lambda: sum(len(path.read_text().split()) for path in tmp_path.glob("part-*")) >= 200, job=client)
    client.cancel().result(timeout=60)
