"""What the Spark executor refuses before it asks for a Spark."""

from __future__ import annotations

import pytest

from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.client import JobStatus


def test_a_program_without_checkpoints_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "local[1]",
            "execution.checkpointing.mode": "NONE",
            "pipeline.progress": "off",
        }
    )
    env.from_parallel_collection([1]).print()

    with pytest.raises(
        ConfigError,
        match="mode NONE is not available on Spark, where each epoch is a checkpoint; use EXACTLY_ONCE, or set",
    ):
        env.execute("without")


def test_a_program_that_is_refused_before_it_begins_has_failed() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "local[1]", "execution.checkpointing.mode": "NONE", "pipeline.progress": "off"}
    )
    env.from_parallel_collection([1]).print()
    client = env.execute_async("without")

    with pytest.raises(ConfigError, match="mode NONE is not available on Spark"):
        client.get_job_execution_result().result(timeout=60)
    assert client.get_job_status().result() is JobStatus.FAILED


def test_what_spark_submit_starts_is_not_run_on_this_machine_alone_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    env = StreamExecutionEnvironment.get_execution_environment({"pipeline.progress": "off"})
    env.from_parallel_collection([1]).print()

    with pytest.raises(
        ConfigError,
        match=r"execution.target is required under spark-submit; got none; set it, or TIDEGATE_EXEC",
    ):
        env.execute("nowhere")


def test_a_setting_says_where_it_runs_though_spark_submit_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    settings = {"pipeline.progress": "off", "execution.target": "inline"}
    env = StreamExecutionEnvironment.get_execution_environment(settings)

    assert list(env.from_parallel_collection([1]).execute_and_collect()) == [1]


def test_a_server_of_spark_connect_is_no_master() -> None:
    settings = {"pipeline.progress": "off", "execution.target": "sc://host:15002"}
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_parallel_collection([1]).print()

    with pytest.raises(
        ConfigError,
        match=r"'sc://host:15002', a Spark Connect URL, which cannot .*; expected embedded, inline or the URL",
    ):
        env.execute("connected")
