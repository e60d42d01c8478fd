"""What a cancelled job leaves behind, as its program says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import ExternalizedCheckpointRetention, StreamExecutionEnvironment
from tidegate.errors import JobCancelledError, JobFailedError
from tidegate.runtime.client import JobClient
from tidegate.runtime.options import default_root

RETAIN = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
DELETE = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION


class Poison:
    """Fails when the file is there."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, number: int) -> int:
        if self._file.exists():
            raise ValueError("poisoned")
        return number


def start(
    env: StreamExecutionEnvironment, place: Path, retention: ExternalizedCheckpointRetention
) -> JobClient:
    """An endless job that has a checkpoint whose output is visible."""
    env.enable_checkpointing(50)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(retention)
    env.set_default_savepoint_directory(str(place / "savepoints"))
    numbers: Any = env.from_source(GeneratorSource(int, count=None, rate_per_second=500))
    numbers.map(Poison(place / "poison")).filter(lambda _: False).print()
    client = env.execute_async("numbers")
    until(checkpoints, job=client)
    return client


def checkpoints() -> list[str]:
    root = Path(default_root(os.environ))
    return sorted(path.parent.name for path in root.glob("*/chk-*/_settled"))


@pytest.mark.spec("002/AX-59")
@pytest.mark.parametrize("retention", [RETAIN, DELETE], ids=lambda each: each.name)
def test_cancelling_keeps_or_removes_the_checkpoints_as_configured(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, retention: ExternalizedCheckpointRetention
) -> None:
    client = start(anywhere, tmp_path, retention)

    client.cancel().result(timeout=60)

    with pytest.raises(JobCancelledError, match="job 'numbers' was cancelled"):
        client.get_job_execution_result().result(timeout=60)
    assert bool(checkpoints()) is (retention is RETAIN)


@pytest.mark.spec("002/AX-59")
def test_a_failed_job_keeps_its_checkpoints_in_any_case(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    client = start(anywhere, tmp_path, DELETE)

    (tmp_path / "poison").touch()

    with pytest.raises(JobFailedError, match="poisoned"):
        client.get_job_execution_result().result(timeout=60)
    assert checkpoints() != []


def test_a_savepoint_outlives_the_checkpoints_of_a_job_that_is_stopped_for_good(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    client = start(anywhere, tmp_path, DELETE)

    place = client.stop_with_savepoint(False, for_good=True).result(timeout=60)

    client.gone().result(timeout=60)
    assert checkpoints() == []
    assert Path(place, "_savepoint").exists()
