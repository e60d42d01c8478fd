"""Programs go on from whole checkpoints and savepoints that earlier versions took, with state and records of every kind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.golden.checkpoints.taken import PROGRAMS, settings
from tests.random_changes import program as program_module, steps
from tests.random_changes.generated import model
from tests.random_changes.program import build, read
from tests.random_changes.runs import in_flight

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def steps_travel_by_value() -> Iterator[None]:
    for module in (program_module, steps):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (program_module, steps):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_checkpoint_of_version_1_is_gone_on_from(name: str, tmp_path: Path) -> None:
    program, how = PROGRAMS[name]
    shutil.unpack_archive(HERE / f"{name}-1.tar.gz", tmp_path, filter="data")
    assert sum(read(tmp_path / "out").values()) < sum(model(program).values())
    places = [str(place) for place in tmp_path.glob("savepoint-*")]
    given: dict[str, Any] = settings(tmp_path, how["backend"])
    if how["form"]:
        given["execution.savepoint.path"] = places[0]
    else:
        assert in_flight(tmp_path)

    result = build(program, tmp_path / "out", given).execute("random")

    assert result.resumed_from is not None
    assert result.records < len(program.changes)
    assert read(tmp_path / "out") == model(program)
