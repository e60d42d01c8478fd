"""Programs whose functions are written in test modules."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import cloudpickle
import pytest

from tests.unit.runtime.stream import buffering, changes, kinds, written
from tidegate.datastream import StreamExecutionEnvironment

HERE: Final = {"inline": ("inline", 2), "embedded-2": ("embedded", 2), "embedded-3": ("embedded", 3)}
"""The executors of this machine, with a parallelism."""

ON_SPARK: Final = frozenset(
    tomllib.loads((Path(__file__).parents[3] / "spec" / "examples.toml").read_text(encoding="utf-8"))[
        "spark"
    ]["examples"]
)
"""The examples that are shown on Spark, too."""


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules, so what is written there travels by value."""
    for module in (request.module, buffering, changes, kinds, written):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, buffering, changes, kinds, written):
        cloudpickle.unregister_pickle_by_value(module)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say where a test that runs anywhere runs."""
    if "anywhere" in metafunc.fixturenames:
        places = [pytest.param(place, id=id) for id, place in HERE.items()]
        cited = {id for mark in metafunc.definition.iter_markers("spec") for id in mark.args}
        if cited & ON_SPARK or "batch" in metafunc.fixturenames:
            places.append(pytest.param(("local[2]", 2), id="spark", marks=pytest.mark.spark))
        metafunc.parametrize("anywhere", places, indirect=True)


@pytest.fixture
def anywhere(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    """An environment on an executor; a failure is final."""
    target, parallelism = request.param
    on_spark: dict[str, object] = {}
    if target.startswith("local"):
        request.getfixturevalue("spark")
        on_spark = {"execution.spark.epoch-records": 1_000}
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": parallelism,
            "restart-strategy.fixed-delay.attempts": 0,
            **on_spark,
        }
    )
