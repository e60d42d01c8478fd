"""Programs on Spark do what they do on the other executors, in processes of Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize("backend", ["heap", "rocksdb", "filesystem"])
def test_totals_equal_those_of_the_inline_executor(job: Any, tmp_path: Path, backend: str) -> None:
    job.settings["state.backend.type"] = backend
    expected = type(job)(tmp_path / "inline", job.count)
    expected.run("inline")

    result = job.run()

    assert job.audit() == []
    assert job.balances() == expected.balances()
    assert sorted(row["id"] for row in job.rows()) == sorted(row["id"] for row in expected.rows())
    assert (result.state, result.records, result.restarts) == ("finished", 600, 0)


def test_an_epoch_reads_no_more_than_it_may_and_the_end_takes_one_more(job: Any) -> None:
    # Three splits of 200 records: one reader gets two of them, so it takes four epochs of 100.
    assert job.run().checkpoint == 5


def test_user_functions_run_in_processes_of_spark_alone(job: Any) -> None:
    job.run()

    read_by = {row["read_by"] for row in job.rows()}
    worked_by = {row["worked_by"] for row in job.rows()}
    assert os.getpid() not in read_by | worked_by
    assert len(read_by | worked_by) >= 2


def test_an_epoch_goes_on_from_what_the_one_before_left_on_the_machine(job: Any) -> None:
    job.settings |= {"state.backend.type": "rocksdb", "state.backend.fs.memory-threshold": 0}
    state = str(job.directory / "state")

    def before(value: Any) -> Any:
        if value["id"] == 150:
            stored = [path for path in Path(state).glob("*/shared/*") if path.is_file()]
            assert stored
            for path in stored:
                path.unlink()
        return value

    result = job.run(before=before)

    assert job.audit() == []
    assert (result.state, result.restarts) == ("finished", 0)
