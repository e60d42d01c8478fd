"""A random program over random changes emits what a model of it does, also where it is interrupted; broken doubles are found."""

from __future__ import annotations

import importlib
import pkgutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cloudpickle
import pytest
from hypothesis import Phase, find, given, settings

from tests.random_changes import program as program_module, steps
from tests.random_changes.generated import PAUSE_S, Run, interrupted, model, programs
from tests.random_changes.model import Change
from tests.random_changes.program import Described, build, read, stop
from tests.random_changes.runs import common, in_flight
from tests.random_changes.steps import DEALS, IN_BATCH, IN_EPOCHS, STEPS
from tidegate import runtime
from tidegate.common import Row
from tidegate.datastream import FilterFunction
from tidegate.elements import Batch
from tidegate.errors import JobFailedError, TidegateError
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.operators.chain import loops
from tidegate.runtime.operators.operator import StepKind
from tidegate.runtime.task import exchange, frames, in_flight as recording, routing, sorted_input

pytestmark = pytest.mark.filterwarnings("ignore:iterate:DeprecationWarning")

FAILS: dict[str, Any] = {"restart-strategy.type": "none", "pipeline.progress": "off"}
CHANGES: list[Change] = [(number % 4, number % 3, number % 10) for number in range(60)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        long = metafunc.config.getoption("--profile") == "long"
        metafunc.parametrize("seed", range(200 if long else 6))


@pytest.fixture(autouse=True)
def steps_travel_by_value() -> Iterator[None]:
    """Workers cannot import test modules."""
    for module in (program_module, steps):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (program_module, steps):
        cloudpickle.unregister_pickle_by_value(module)


def output(program: Described, target: str = "inline", parallelism: int = 2) -> Counter[Change]:
    with tempfile.TemporaryDirectory() as directory:
        out, state = Path(directory, "out"), str(Path(directory, "state"))
        given = {
            "execution.target": target,
            "parallelism.default": parallelism,
            "state.checkpoints.dir": state,
        }
        build(program, out, FAILS | given).execute("random")
        return read(out)


@settings(deadline=None)
@given(program=programs())
def test_a_random_program_emits_what_its_model_does(program: Described) -> None:
    assert output(program) == model(program)


@pytest.mark.parametrize(
    "steps",
    [
        ["union", ["hash", 2, 0], "process", ["broadcast", 2, 0], "expressions"],
        ["flat map", ["rebalance", 1, 0], "split expressions", "later", "filter", "iteration"],
    ],
    ids=["broadcast", "rebalance"],
)
def test_it_does_so_in_worker_processes(steps: list[Any]) -> None:
    program = Described(steps, CHANGES)

    assert output(program, "embedded") == model(program)


def continued(program: Described, runs: list[Run], directory: Path) -> Counter[Change]:
    """The output of a program that fails, is stopped with a savepoint, and goes on to its end."""
    first, second, last = runs
    inline = common(directory) | FAILS | {"execution.target": "inline"}
    faults = {"testing.faults": f"{first.fault}!raise", "testing.faults-dir": str(directory / "witnesses")}
    out, never = directory / "out", str(directory / "never")

    with pytest.raises(JobFailedError, match="injected at checkpoint"):
        build(program, out, inline | first.settings() | faults, never).execute("random")
    assert in_flight(directory), "no records were overtaken"
    place = stop(build(program, out, inline | second.settings(), never), out, second.savepoint)
    went_on = inline | last.settings() | {"execution.savepoint.path": place}
    build(program, out, went_on).execute("random")
    return read(out)


def test_a_random_program_that_fails_and_is_stopped_goes_on_with_changes(seed: int, tmp_path: Path) -> None:
    program, runs = interrupted(seed)

    assert continued(program, runs, tmp_path) == model(program), (program.steps, runs)


def test_every_kind_of_step_is_in_some_program() -> None:
    used = set[str]()
    for names in ([*IN_EPOCHS, *([deal, 2, PAUSE_S] for deal in DEALS)], ["iteration"]):
        env = build(Described(names, CHANGES), Path("out"), {"parallelism.default": 2})
        nodes = build_stream_graph(env._program, parallelism=2).nodes.values()
        used |= {node.kind.name for node in nodes}
    assert {*IN_EPOCHS, *IN_BATCH, "iteration"} == STEPS.keys()

    modules = pkgutil.walk_packages(runtime.__path__, "tidegate.runtime.")
    of_steps = [each.name for each in modules if ".operators" in each.name or ".graph" in each.name]
    values = [value for name in of_steps for value in vars(importlib.import_module(name)).values()]
    known = {value.name for value in values if isinstance(value, StepKind)}
    assert known - used == {"union"}, "a union is an edge of the graph, and no step of it"


def without(batch: Batch) -> Batch:
    """The same records, all of which seem to be insertions."""
    found: Batch = batch.with_values(batch.values)
    found.kinds = None
    return found


def differs(program: Described) -> bool:
    """Whether the model sees that something is wrong."""
    try:
        return output(program) != model(program)
    except TidegateError:
        return True


@pytest.mark.parametrize(
    ("module", "name", "double"),
    [
        (
            routing,
            "_split_by_receiver",
            lambda split: lambda *of: [(target, without(part)) for target, part in split(*of)],
        ),
        (exchange, "concat", lambda concat: lambda batches: map(without, concat(batches))),
        (frames, "decode_batch", lambda decode: lambda *of: without(decode(*of))),
        (sorted_input, "batch_of", lambda batch_of: lambda *of: without(batch_of(*of))),
        (loops, "kinds_of", lambda kinds_of: lambda values: None),
        (loops, "kinds_or_none", lambda kinds_or_none: lambda kinds: None),
    ],
    ids=["router", "buffer", "frames in files", "sorted input", "rows of functions", "kinds of a loop"],
)
def test_what_loses_kinds_is_found(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, double: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(module, name, double(getattr(module, name)))

    generated = settings(max_examples=500, phases=[Phase.generate], derandomize=True, database=None)
    lost = find(programs(iterations=False), differs, settings=generated)

    monkeypatch.undo()
    assert not differs(lost)


class LosesFrames(FilterFunction):
    """Breaks the codec of frames in the process it is opened in."""

    def open(self, runtime_context: Any) -> None:
        decode = vars(frames)["decode_batch"]
        patch.object(frames, "decode_batch", lambda *of: without(decode(*of))).start()

    def filter(self, value: Row) -> bool:
        return True


def test_frames_that_lose_kinds_between_processes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Described(["broken", "expressions", ["rebalance", 1, 0]], CHANGES)
    monkeypatch.setitem(steps.STEPS, "broken", lambda stream: stream.filter(LosesFrames()))

    assert output(program, "embedded") != model(program)


def test_a_checkpoint_that_loses_kinds_of_overtaken_records_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    encoded = recording._encoded
    monkeypatch.setattr(recording, "_encoded", lambda batch, codec: encoded(without(batch), codec))
    program, (_, runs) = Described([["rebalance", 2, PAUSE_S]], CHANGES * 5), interrupted(0)

    assert continued(program, runs, tmp_path) != model(program)
