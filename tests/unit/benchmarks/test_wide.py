"""A wide job without Spark: what the driver decides, commits and keeps of it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.wide")


def test_the_epochs_of_a_wide_job_are_decided_and_committed_by_the_classes_of_a_real_one(
    wide: Any, tmp_path: Path
) -> None:
    job = wide.Wide(tmp_path, partitions=200, count=3)
    epochs = job.run()
    newest = job.newest()

    assert len(epochs) == 3
    (keyed,) = [operator for operator in newest.operators if operator.keyed]
    assert len(keyed.keyed) == 200
    assert [
        len(known.committables) for known in newest.unsettled if known.checkpoint == newest.checkpoint
    ] == [200]
    assert (tmp_path / newest.run / f"chk-{newest.checkpoint}" / "_settled").exists()


def test_what_each_task_is_sent_does_not_grow_with_the_state_of_all(wide: Any, tmp_path: Path) -> None:
    few = wide.Wide(tmp_path / "few", partitions=10, count=2).run()[-1]
    many = wide.Wide(tmp_path / "many", partitions=200, count=2).run()[-1]

    assert many.data_bytes > 15 * few.data_bytes
    assert many.closure_bytes - few.closure_bytes < 190 * 50
