"""The examples for Structured Streaming, in one session, as starting Spark takes longer than any of them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.testing.services import KafkaService

pytestmark = [pytest.mark.spark, pytest.mark.service]

EXAMPLES = Path(__file__).resolve().parent.parent.parent.parent / "examples"


def said(name: str, *arguments: Any) -> list[str]:
    found: list[str] = runpy.run_path(str(EXAMPLES / name))["main"](*arguments)
    return found


def test_sums_of_a_stream_are_told_once_for_each_change(
    session: SparkSession, kafka: KafkaService, tmp_path: Path
) -> None:
    assert said("spark_orders_to_kafka.py", session, kafka.address, kafka.new_topic(), tmp_path) == [
        '{"user":"ada","cents":300}',
        '{"user":"ada","cents":320}',
    ]


def test_a_topic_is_copied_in_batches_and_once(
    session: SparkSession, kafka: KafkaService, tmp_path: Path
) -> None:
    assert said("spark_topic_to_files.py", session, kafka.address, kafka.new_topic(), tmp_path) == [
        "50 clicks in 3 batches",
        "0 clicks in 0 batches",
        "50 lines, 50 clicks",
    ]


def test_a_table_that_is_written_twice_is_there_once(
    session: SparkSession, kafka: KafkaService, tmp_path: Path
) -> None:
    assert said("spark_table_to_kafka.py", session, kafka.address, kafka.new_topic(), tmp_path) == [
        "monday: 30 prices",
        "tuesday: 30 prices",
    ]


def test_state_answers_sql(session: SparkSession, tmp_path: Path) -> None:
    assert said("spark_state_as_table.py", session, tmp_path) == [
        "account 49: 10480",
        "account 48: 10460",
        "50 accounts, 499500 cents",
    ]
