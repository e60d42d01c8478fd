from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.graph.mode import RuntimeMode, runs_as_batch
from tidegate.runtime.graph.transformations import ITERATION
from tidegate.runtime.operators.functions import MAP
from tidegate.runtime.operators.operator import StepKind
from tidegate.runtime.operators.stamp import SOURCE


def step(kind: StepKind, name: str, payload: Any = None) -> Any:
    return SimpleNamespace(kind=kind, name=name, uid=f"{name}-1", payload=payload)


def source(name: str, *, bounded: bool) -> Any:
    return step(SOURCE, name, SimpleNamespace(bounded=bounded))


MAPS = step(MAP, "map")
ENDS, GOES_ON = source("files", bounded=True), source("socket", bounded=False)


@pytest.mark.parametrize(
    ("mode", "sources", "expected"),
    [
        ("STREAMING", [ENDS], False),
        ("STREAMING", [GOES_ON], False),
        ("AUTOMATIC", [ENDS, ENDS], True),
        ("AUTOMATIC", [ENDS, GOES_ON], False),
        ("BATCH", [ENDS, MAPS], True),
    ],
)
def test_mode_and_sources_decide(mode: RuntimeMode, sources: list[Any], expected: bool) -> None:
    assert runs_as_batch(mode, sources) is expected


def test_a_batch_job_names_the_source_that_never_ends() -> None:
    with pytest.raises(ConfigError, match=r"source 'socket' \(uid 'socket-1'\) is unbounded"):
        runs_as_batch("BATCH", [ENDS, GOES_ON])


@pytest.mark.parametrize("mode", ["BATCH", "AUTOMATIC"])
def test_a_batch_job_has_no_iterations(mode: RuntimeMode) -> None:
    with pytest.raises(
        ConfigError, match=rf"iteration 'round-1' cannot be part of a batch job.*got runtime mode {mode}"
    ):
        runs_as_batch(mode, [ENDS, step(ITERATION, "round")])
