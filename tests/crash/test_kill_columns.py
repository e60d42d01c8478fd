"""`kill -9` of a job that reads and writes Parquet files as columns: a position within a row group is exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.connectors.files.split import FileSplit

pytestmark = pytest.mark.crash

FILES, ROWS = 2, 20_000
POINTS = [
    "taskmanager-0/task.after-batch@40",
    "taskmanager-1/task.before-snapshot@3",
    "taskmanager-0/sink.after-prepare@3",
    "taskmanager-1/task.before-ack@4",
]
UNALIGNED = {"execution.checkpointing.unaligned.enabled": True}


@pytest.fixture
def columns(job: Any) -> Any:
    """The job of these tests, and its input: files of one row group each."""
    job.program = Path(__file__).parent / "programs" / "columns.py"
    source = job.directory / "in"
    source.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        names = [f"customer-{each}" for each in ids]
        pq.write_table(pa.table({"id": ids, "name": names}), source / f"{number}.parquet")
    return job


def written(job: Any) -> Counter[tuple[int, str]]:
    found: Counter[tuple[int, str]] = Counter()
    for path in job.output.glob("part-*"):
        rows = pq.ParquetFile(path).read().to_pylist()
        found.update((row["id"], row["name"]) for row in rows)
    return found


EXPECTED = Counter((each, f"customer-{each}") for each in range(FILES * ROWS) if each % 13 > 0)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_worker_is_replaced_and_every_row_is_written_once(columns: Any, point: str) -> None:
    done = columns.run_into(point)

    assert done.returncode == 0, done.stderr
    assert columns.reached(point), f"{point} was never passed"
    assert written(columns) == EXPECTED


@pytest.mark.parametrize("settings", [{}, UNALIGNED], ids=["aligned", "unaligned"])
def test_a_killed_program_goes_on_within_a_row_group(columns: Any, settings: dict[str, Any]) -> None:
    columns.settings = settings
    columns.kill_at("jobmanager/checkpoint.after-swap@4")
    (source,) = [each for each in columns.newest().operators if each.coordinator is not None]
    splits = [msgspec.msgpack.decode(split, type=FileSplit) for split in source.splits]
    assert any(0 < split.at < ROWS for split in splits), splits

    assert columns.result(parallelism__default=3)["state"] == "finished"

    assert written(columns) == EXPECTED
