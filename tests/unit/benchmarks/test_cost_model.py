"""The model of an epoch's cost finds what is in the measurements, and scales as tasks do."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3]))
    return importlib.import_module("benchmarks.cost_model")


def measured(model: Any, noise: float) -> list[Any]:
    chance = random.Random(3)
    return [
        model.Point(
            partitions,
            records,
            dirty,
            (0.1 + 0.03 * partitions + 2e-6 * records + 5e-6 * dirty) * (1 + chance.uniform(-noise, noise)),
        )
        for partitions in (1, 2, 4, 8)
        for records, dirty in ((800, 800), (20_000, 20_000), (100_000, 20_000))
    ]


def test_a_fit_finds_the_costs_that_are_in_the_measurements(model: Any) -> None:
    found = model.fit(measured(model, 0.0))

    assert found.fixed_s == pytest.approx(0.1)
    assert found.partition_s == pytest.approx(0.03)
    assert found.record_s == pytest.approx(2e-6)
    assert found.dirty_s == pytest.approx(5e-6)


def test_noise_of_a_twentieth_leaves_the_prediction_within_a_fifth(model: Any) -> None:
    found = model.fit(measured(model, 0.05))

    assert found.seconds(50, 500_000, 500_000) == pytest.approx(0.1 + 1.5 + 1.0 + 2.5, rel=0.2)


def test_tasks_run_on_as_many_slots_as_there_are_partitions_at_most(model: Any) -> None:
    found = model.Model(0.1, 0.02, 0.0, 0.0)

    assert found.seconds(4, 0, 0) == pytest.approx(0.18)
    assert found.seconds(4, 0, 0, slots=4) == pytest.approx(0.14)
    assert found.seconds(4, 0, 0, slots=100) == found.seconds(4, 0, 0, slots=4)
