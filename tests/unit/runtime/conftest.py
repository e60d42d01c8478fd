"""Steps of programs, built by hand: what the API makes, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.print import PrintSink
from tidegate.runtime.graph.transformations import (
    FEEDBACK,
    ITERATION,
    SIDE_OUTPUT,
    UNION,
    Input,
    Partition,
    Transformation,
)
from tidegate.runtime.operators.async_wait import ASYNC_WAIT
from tidegate.runtime.operators.broadcast import BROADCAST_PROCESS
from tidegate.runtime.operators.functions import CO_FLAT_MAP, CO_MAP, FILTER, FLAT_MAP, MAP
from tidegate.runtime.operators.keyed import CO_PROCESS, PROCESS
from tidegate.runtime.operators.reduce import REDUCE
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE, STAMP
from tidegate.runtime.operators.window.operator import WINDOW

Step = Callable[..., Transformation]


@pytest.fixture(scope="session")
def step() -> Step:
    """Makes a step behind another one: `step("map", before, name="double", partition=Rebalance())`."""

    def make(
        kind: str,
        *before: Transformation,
        payload: Any = None,
        partition: Partition | None = None,
        name: str | None = None,
        **fields: Any,
    ) -> Transformation:
        given = payload if payload is not None else _PAYLOADS.get(kind, lambda value: value)
        inputs = tuple(Input(each, partition) for each in before)
        return Transformation(_KINDS[kind], name or kind, given, inputs, **fields)

    return make


_FUNCTIONS = (MAP, FILTER, FLAT_MAP, PROCESS, REDUCE, STAMP, ASYNC_WAIT, WINDOW)
_OF_TWO = (CO_MAP, CO_FLAT_MAP, CO_PROCESS, BROADCAST_PROCESS)
_OTHERS = (SOURCE, SIDE_OUTPUT, UNION, ITERATION, FEEDBACK, SINK)
_KINDS = {kind.name: kind for kind in (*_FUNCTIONS, *_OF_TWO, *_OTHERS)}
_PAYLOADS: dict[str, Any] = {"source": CollectionSource([1, 2, 3]), "sink": PrintSink()}
