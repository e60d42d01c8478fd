"""Peers that do not work are told apart from those that are measured."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import UnavailableError


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3]))
    return importlib.import_module("benchmarks.bench_kafka_peers")


def test_a_peer_that_cannot_be_installed_has_no_bars_but_a_reason(bench: Any) -> None:
    def not_there(name: str) -> Any:
        raise UnavailableError(f"{name} could not be installed")

    name = bench.RIVALS[0].name
    found = bench.started(bench.Rival(name, 1.5, 1, not_there), None, None, None)

    assert found == f"{name} could not be installed"
    assert name not in {bar.baseline for bar in bench.bars({name: found})}
    assert {bar.baseline for bar in bench.bars({})} == {rival.name for rival in bench.RIVALS}


def test_the_programs_of_the_peers_are_there(bench: Any) -> None:
    for program in ("quix_job.py", "bytewax_2proc.sh", "bytewax_flow.py", "flink_sql.py", "flink_ds.py"):
        assert (bench.PROGRAMS / program).is_file()
