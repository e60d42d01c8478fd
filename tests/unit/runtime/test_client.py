"""A job beside the program that started it: asked, stopped, cancelled; in one process and in several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError, JobCancelledError, JobFailedError
from tidegate.runtime.client import JobClient, JobStatus
from tidegate.runtime.result import JobResult


@pytest.fixture(params=["inline", "embedded"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {
        "execution.target": request.param,
        "state.checkpoints.dir": str(tmp_path / "state"),
        "execution.checkpointing.interval": "50 ms",
        "pipeline.progress": "off",
        "parallelism.default": 2,
        "restart-strategy.fixed-delay.attempts": 0,
    }


def start(settings: dict[str, Any], output: Path, count: int | None = None) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    numbers = env.from_source(GeneratorSource(int, count=count, rate_per_second=2_000))
    numbers.sink_to(FileSink(str(output))).uid("files")
    return env.execute_async("numbers")


def lines(output: Path) -> list[int]:
    return sorted(int(line) for path in output.glob("part-*") for line in path.read_text().splitlines())


def ended(client: JobClient) -> JobResult:
    return client.get_job_execution_result().result(timeout=60)


def status(client: JobClient) -> JobStatus:
    return client.get_job_status().result()


def test_the_result_arrives_while_the_program_goes_on(settings: dict[str, Any], tmp_path: Path) -> None:
    client = start(settings, tmp_path / "out", count=500)

    result = ended(client)

    assert (result.state, result.records, result.run) == ("finished", 500, client.get_job_id())
    assert status(client) is JobStatus.FINISHED
    assert status(client).is_globally_terminal_state()
    assert lines(tmp_path / "out") == list(range(500))


def test_a_stopped_job_goes_on_where_it_was(settings: dict[str, Any], tmp_path: Path) -> None:
    client = start(settings, tmp_path / "out")
    until(lambda: lines(tmp_path / "out"), job=client)
    stopped = client.stop().result(timeout=60)

    again = start(settings, tmp_path / "out")
    resumed = again.stop().result(timeout=60)

    assert (stopped.state, resumed.resumed_from) == ("stopped", stopped.checkpoint)
    written = lines(tmp_path / "out")
    assert written == sorted(set(written))


def test_a_cancelled_job_leaves_what_was_decided_and_begins_anew(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    client = start(settings, tmp_path / "out")
    until(lambda: lines(tmp_path / "out"), job=client)

    client.cancel().result(timeout=60)
    with pytest.raises(JobCancelledError, match="job 'numbers' was cancelled"):
        ended(client)

    assert status(client) is JobStatus.CANCELED
    written = lines(tmp_path / "out")
    assert written
    assert len(written) == len(set(written))
    assert ended(start(settings, tmp_path / "anew", count=10)).resumed_from is None


def test_a_failure_is_raised_when_the_result_is_asked_for(settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_parallel_collection([0]).map(lambda value: 1 // value).print()
    client = env.execute_async("failing")

    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        ended(client)
    assert status(client) is JobStatus.FAILED


def test_a_wrong_setting_is_refused_at_once(settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({**settings, "execution.target": "moon"})
    env.from_parallel_collection([0]).print()

    with pytest.raises(ConfigError, match=r"execution\.target is 'moon'"):
        env.execute_async("nowhere")


def test_a_stopped_batch_job_is_cancelled_and_leaves_nothing(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {**settings, "execution.runtime-mode": "BATCH"}
    )
    numbers = env.from_source(GeneratorSource(int, count=1_000_000, rate_per_second=100))
    numbers.sink_to(FileSink(str(tmp_path / "out"))).uid("files")
    client = env.execute_async("numbers")

    with pytest.raises(
        JobCancelledError,
        match="batch job 'numbers' takes one only at its end; the job was cancelled; the next",
    ):
        client.stop().result(timeout=60)
    assert status(client) is JobStatus.CANCELED
    assert lines(tmp_path / "out") == []
