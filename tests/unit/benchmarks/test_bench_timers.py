"""The benchmark of timers runs, at a size that takes no time."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_all_timers_fire_with_a_barrier_in_the_middle(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    figures = importlib.import_module("benchmarks.bench_timers").measure(backend, 3_000)

    assert (figures.backend, figures.count) == (backend, 3_000)
    assert figures.barriers >= 1
    assert figures.above_mb < 64
