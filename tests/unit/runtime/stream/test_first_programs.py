"""The programs everybody writes first; what they print is read on the executors of this machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tidegate.datastream import DataStream, StreamExecutionEnvironment


@pytest.fixture(
    params=[("inline", 2), ("embedded", 2), ("embedded", 3)], ids=["inline", "embedded-2", "embedded-3"]
)
def env(request: pytest.FixtureRequest, tmp_path: Path) -> StreamExecutionEnvironment:
    """An environment whose programs print in a directory of their own."""
    target, parallelism = request.param
    settings = {
        "execution.target": target,
        "pipeline.progress": "off",
        "parallelism.default": parallelism,
        "state.checkpoints.dir": str(tmp_path),
    }
    return StreamExecutionEnvironment.get_execution_environment(settings)


@pytest.mark.spec("004/AX-002")
def test_word_count_is_written_in_five_steps(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = env.from_collection(["to be", "or not", "to be"])
    pairs = lines.flat_map(str.split).map(lambda word: (word, 1))
    pairs.key_by(lambda pair: pair[0]).sum(1).print().set_parallelism(1)
    assert capsys.readouterr().out == ""
    env.execute("word count")

    assert Counter(capsys.readouterr().out.splitlines()) == Counter(
        ["('to', 1)", "('to', 2)", "('be', 1)", "('be', 2)", "('or', 1)", "('not', 1)"]
    )


RUNNING_SUMS = [2, 6, 12, 20, 30, 42, 56, 72, 90, 110]


def running_sums(env: StreamExecutionEnvironment) -> DataStream:
    numbers = env.from_collection(range(1, 11)).set_parallelism(1)
    doubled = numbers.map(lambda number: number * 2).set_parallelism(1)
    return doubled.key_by(lambda number: 1).sum(0)


@pytest.mark.spec("003/EX-02")
def test_running_sums_of_doubled_numbers_come_in_order(anywhere: StreamExecutionEnvironment) -> None:
    assert list(running_sums(anywhere).execute_and_collect()) == RUNNING_SUMS


@pytest.mark.spec("003/EX-02")
def test_running_sums_of_doubled_numbers_are_printed_in_order(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    running_sums(env).print().set_parallelism(1)
    env.execute("sums")

    assert [int(line) for line in capsys.readouterr().out.splitlines()] == RUNNING_SUMS


@pytest.mark.spec("002/AX-03")
def test_a_stream_united_with_itself_has_every_record_twice(anywhere: StreamExecutionEnvironment) -> None:
    stream = anywhere.from_collection([1, 2])

    assert sorted(stream.union(stream).execute_and_collect()) == [1, 1, 2, 2]
