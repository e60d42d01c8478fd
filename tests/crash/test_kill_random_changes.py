"""`kill -9` of a worker and of the job in random programs over changes, then a savepoint, each time at another parallelism."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_changes.generated import interrupted, model
from tests.random_changes.program import read
from tests.random_changes.runs import Sequence, in_flight

pytestmark = pytest.mark.crash

SEEDS = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        long = metafunc.config.getoption("--profile") == "long"
        metafunc.parametrize("seed", range(100 if long else SEEDS))


def test_a_random_program_that_is_killed_emits_what_its_model_does(seed: int, tmp_path: Path) -> None:
    program, (killed, stopped, last) = interrupted(seed)
    sequence = Sequence(program, tmp_path, "embedded")

    sequence.run(killed, 0)
    assert in_flight(tmp_path), "no records were overtaken"
    assert sum(read(sequence.output).values()) < sum(model(program).values())
    sequence.run(stopped, 1)
    result = sequence.run(last, 2)

    assert (result["resumed_from"] is not None, result["restarts"]) == (True, 1)
    assert read(sequence.output) == model(program), (program.steps, killed, stopped, last)
