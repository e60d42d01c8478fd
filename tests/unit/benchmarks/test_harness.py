"""The harness measures in turns, judges by bars and writes down everything it saw."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3]))
    return importlib.import_module("benchmarks.harness")


@pytest.fixture
def report(harness: Any) -> Any:
    cases = [
        harness.Case("sum", lambda: sum(range(100)), {"n": 100}, work=100),
        harness.Case("longer <sum>", lambda: sum(range(100_000)), {"n": 100_000}, work=100_000),
    ]
    bars = [
        harness.Bar("longer <sum>", "sum", 1e9),
        harness.Bar("longer <sum>", "sum", 2.0),
        harness.Bar("sum", "longer <sum>", 0.0, "ms more"),
        harness.Bar("sum", "longer <sum>", 1.0, "of its speed"),
        harness.Bar("sum", "sum", 1e6, "ms"),
    ]
    return harness.compare("sums", cases, bars, rounds=5, seconds=0.001)


def test_bars_are_judged_by_the_ratio_or_the_difference(report: Any) -> None:
    assert [verdict.passed for verdict in report.verdicts] == [True, False, True, True, True]
    assert report.verdicts[0].value == report.verdicts[1].value > 2.0
    assert report.verdicts[2].value < 0.0
    assert not report.passed


def test_the_table_shows_every_case_and_every_verdict(report: Any) -> None:
    table = report.table()

    assert table.startswith("sums: 5 rounds, ")
    assert "pass: longer <sum> against sum: " in table
    assert "MISS: longer <sum> against sum: " in table
    assert "pass: sum against longer <sum>: -" in table
    assert "pass: sum: " in table


def test_the_result_holds_all_rounds_their_arguments_and_the_machine(report: Any, tmp_path: Path) -> None:
    found = json.loads(report.save(tmp_path).read_text(encoding="utf-8"))

    assert [case["arguments"] for case in found["cases"]] == [{"n": 100}, {"n": 100_000}]
    assert [len(case["rounds"]) for case in found["cases"]] == [5, 5]
    assert all(turn["wall_s"] > 0 for case in found["cases"] for turn in case["rounds"])
    assert {"cpu", "cores", "memory_mib", "kernel", "python", "load_1min"} == set(found["machine"])
    assert 0 <= found["free_cores"] <= found["machine"]["cores"]


def test_the_chart_is_a_picture_with_one_bar_per_case(report: Any, tmp_path: Path) -> None:
    report.save(tmp_path)

    picture = ElementTree.parse(tmp_path / "sums.svg").getroot()

    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in picture.iter(f"{space}text")]
    assert len(list(picture.iter(f"{space}rect"))) == 2
    assert texts[0] == "sums (ms per call)"
    assert {"sum", "longer <sum>"} < set(texts)


def test_a_meter_of_its_own_says_what_a_case_costs(harness: Any) -> None:
    def meter(run: Any, calls: int) -> Any:
        return harness.Round(float(run()), float(run()) / calls)

    cases = [harness.Case("slow", lambda: 6), harness.Case("fast", lambda: 2)]
    bars = [
        harness.Bar("fast", "slow", 2.5, "of its speed"),
        harness.Bar("fast", "slow", 3.5, "of its speed"),
    ]
    found = harness.compare("told", cases, bars, rounds=5, seconds=0, clock="cpu_s", meter=meter)

    assert [round(verdict.value, 6) for verdict in found.verdicts] == [3.0, 3.0]
    assert [verdict.passed for verdict in found.verdicts] == [True, False]


def test_without_a_trial_every_round_is_one_call(harness: Any) -> None:
    calls = []

    report = harness.compare(
        "once", [harness.Case("case", lambda: calls.append("called"))], rounds=3, seconds=None
    )

    assert len(calls) == len(report.cases[0].rounds) == 3


def test_what_could_not_be_measured_is_told_with_its_reason_and_fails(harness: Any, tmp_path: Path) -> None:
    report = harness.compare("few", [harness.Case("case", lambda: None)], rounds=1, seconds=None)
    assert report.passed

    report.missing["peer"] = "needs Java 11 or newer"

    assert not report.passed
    assert "MISS: peer is not measured: needs Java 11 or newer" in report.table()
    assert json.loads(report.save(tmp_path).read_text())["missing"] == report.missing
