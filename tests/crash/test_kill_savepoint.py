"""`kill -9` while a savepoint is written: there is none, the one before is whole, and the job goes on exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.runtime.checkpoint.savepoint import is_savepoint
from tidegate.state_reader import StateReader

pytestmark = pytest.mark.crash


@pytest.mark.parametrize(
    ("point", "complete"),
    [
        ("jobmanager/savepoint.before-complete@1", 0),
        ("jobmanager/savepoint.before-complete@2", 1),
    ],
)
def test_a_job_killed_while_it_writes_a_savepoint_goes_on_without_it(
    job: Any, tmp_path: Path, point: str, complete: int
) -> None:
    job.arguments = (str(tmp_path / "savepoints"),)
    job.kill_at(point)
    places = sorted((tmp_path / "savepoints").iterdir())
    whole = [place for place in places if is_savepoint(str(place))]

    assert (len(places), len(whole)) == (complete + 1, complete)
    for place in whole:
        with StateReader(place) as reader:
            assert len(reader.operators()) == 1
    job.arguments = ()
    assert job.result()["state"] == "finished"
    assert job.audit() == []
