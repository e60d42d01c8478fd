"""Waiting itself: it gives what it finds, and who looks in vain learns what was there last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.waiting import until
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import JobFailedError
from tidegate.runtime.client import JobClient


def test_it_gives_the_first_thing_it_finds_or_what_it_was_to_come_to() -> None:
    looks = iter([[], [1], [2], [3]])

    assert until(lambda: next(looks)) == [1]
    assert until(lambda: next(looks), equals=[3]) == [3]


def test_who_looks_in_vain_learns_what_was_there_last() -> None:
    with pytest.raises(AssertionError, match=r"after 0 s there is still \[\]"):
        until(list, seconds=0.02)
    with pytest.raises(AssertionError, match=r"after 0 s there is still 'some'"):
        until(lambda: "some", seconds=0, equals="all")


def job(tmp_path: Path, divisor: int) -> JobClient:
    """One that divides a number and ends."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(tmp_path),
            "restart-strategy.type": "none",
        }
    )
    env.from_source(GeneratorSource(int, count=1)).map(lambda number: number // divisor).print()
    return env.execute_async("divided")


def test_nothing_is_expected_of_a_job_that_has_ended(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the job has ended, and there is still None"):
        until(lambda: None, job=job(tmp_path, 1))
    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        until(lambda: None, job=job(tmp_path, 0))
