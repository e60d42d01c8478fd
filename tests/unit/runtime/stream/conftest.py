"""Programs whose functions are written in test modules."""

from __future__ import annotations

from collections.abc import Iterator

import cloudpickle
import pytest


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules, so what is written there travels by value."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
