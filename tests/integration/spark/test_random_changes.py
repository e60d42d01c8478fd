"""Random programs over changes on Spark: tasks die, batch jobs, and programs that move to another executor and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.random_changes import program as program_module, steps
from tests.random_changes.generated import batch_job, interrupted, model
from tests.random_changes.program import Described, build, read
from tests.random_changes.runs import Sequence, common, in_flight
from tidegate.errors import JobFailedError
from tidegate.runtime.result import JobResult

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ON_SPARK: dict[str, Any] = {"execution.target": "local[2]", "execution.spark.epoch-records": 100}
INLINE: dict[str, Any] = {"execution.target": "inline"}
FAILS: dict[str, Any] = {"restart-strategy.type": "none"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        long = metafunc.config.getoption("--profile") == "long"
        metafunc.parametrize("seed", range(50 if long else 1))


@pytest.fixture(autouse=True)
def functions_travel_by_value() -> Iterator[None]:
    """Executors cannot import test modules."""
    for module in (program_module, steps):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (program_module, steps):
        cloudpickle.unregister_pickle_by_value(module)


def run(program: Described, directory: Path, settings: dict[str, Any], gate: str = "") -> JobResult:
    given = {**common(directory), "parallelism.default": 2, **settings}
    return build(program, directory / "out", given, gate).execute("random")


def armed(directory: Path, fault: str) -> dict[str, Any]:
    return {"testing.faults": fault, "testing.faults-dir": str(directory / "witnesses")}


@pytest.mark.crash
def test_a_random_program_whose_task_is_killed_emits_what_its_model_does(seed: int, tmp_path: Path) -> None:
    program, (*_, last) = interrupted(seed)
    fault = f"{last.fault.partition('@')[0]}@1"

    result = run(program, tmp_path, {**ON_SPARK, **last.settings(), **armed(tmp_path, fault)})

    (witness,) = (tmp_path / "witnesses").iterdir()
    assert not Path("/proc", witness.read_text().split()[0]).exists()
    assert result.restarts == 0
    assert read(tmp_path / "out") == model(program), program.steps


def test_a_random_batch_job_emits_what_its_model_does(seed: int, tmp_path: Path) -> None:
    program = batch_job(seed)

    run(program, tmp_path, ON_SPARK)

    assert read(tmp_path / "out") == model(program), program.steps


def test_changes_on_their_way_and_in_state_go_on_with_on_spark(seed: int, tmp_path: Path) -> None:
    program, (first, second, _) = interrupted(seed)
    fault = armed(tmp_path, "jobmanager/checkpoint.after-swap@3!raise")
    with pytest.raises(JobFailedError, match=r"injected at checkpoint\.after-swap"):
        run(program, tmp_path, INLINE | FAILS | first.settings() | fault, "never")
    assert in_flight(tmp_path), "no records were overtaken"

    result = run(program, tmp_path, ON_SPARK | {"state.backend.type": second.backend})

    assert result.resumed_from is not None
    assert read(tmp_path / "out") == model(program), program.steps


def test_changes_in_state_go_on_behind_spark(seed: int, tmp_path: Path) -> None:
    program, (_, second, last) = interrupted(seed)
    fault = armed(tmp_path, "jobmanager/checkpoint.after-swap@2!raise")
    with pytest.raises(JobFailedError, match=r"injected at checkpoint\.after-swap"):
        run(program, tmp_path, ON_SPARK | FAILS | {"state.backend.type": second.backend} | fault)

    result = run(program, tmp_path, INLINE | last.settings())

    assert result.resumed_from is not None
    assert read(tmp_path / "out") == model(program), program.steps


@pytest.mark.long
@pytest.mark.crash
def test_a_random_program_whose_driver_is_killed_emits_what_its_model_does(seed: int, tmp_path: Path) -> None:
    program, (killed, _, last) = interrupted(seed)
    sequence = Sequence(program, tmp_path, "local[2]")
    sequence.run(killed, 0)

    assert sequence.run(last, 1)["resumed_from"] is not None
    assert read(sequence.output) == model(program), program.steps
