"""Programs whose functions are written in test modules."""

from __future__ import annotations

from collections.abc import Iterator

import cloudpickle
import pytest

from tests.unit.runtime.stream import buffering, written
from tidegate.datastream import StreamExecutionEnvironment


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules, so what is written there travels by value."""
    for module in (request.module, buffering, written):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, buffering, written):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(
    params=[("inline", 2), ("embedded", 2), ("embedded", 3)], ids=["inline", "embedded-2", "embedded-3"]
)
def anywhere(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    """An environment on each executor of this machine; a failure is final."""
    target, parallelism = request.param
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": parallelism,
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )
