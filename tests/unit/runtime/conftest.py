"""Steps of programs, built by hand: what the API makes, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.print import PrintSink
from tidegate.options import Layer
from tidegate.runtime import options
from tidegate.runtime.graph.transformations import Input, Kind, Partition, Transformation

Step = Callable[..., Transformation]


@pytest.fixture(scope="session")
def step() -> Step:
    """Makes a step behind another one: `step("map", before, name="double", partition=Rebalance())`."""

    def make(
        kind: Kind,
        *before: Transformation,
        payload: Any = None,
        partition: Partition | None = None,
        name: str | None = None,
        **fields: Any,
    ) -> Transformation:
        given = payload if payload is not None else _PAYLOADS.get(kind, lambda value: value)
        inputs = tuple(Input(each, partition) for each in before)
        return Transformation(kind, name or kind, given, inputs, **fields)

    return make


@pytest.fixture
def no_command_line() -> Iterator[None]:
    """Puts the settings of `tidegate run` back to none, as in a program started by itself."""
    yield
    options.set_command_line(Layer("command line", {}))


_PAYLOADS: dict[Kind, Any] = {"source": CollectionSource([1, 2, 3]), "sink": PrintSink()}
