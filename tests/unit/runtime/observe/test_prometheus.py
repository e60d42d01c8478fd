from __future__ import annotations

import re
from pathlib import Path

from tidegate.clock import ManualClock
from tidegate.ids import CheckpointId, OperatorUid, PipelineId, RunId, Subtask
from tidegate.runtime.metrics import Value
from tidegate.runtime.observe.prometheus import METRICS, Subject, exposition
from tidegate.runtime.operators.measures import Measured
from tidegate.runtime.status import RunStatus
from tidegate.runtime.task.flow import Flow

SUBJECT = Subject("orders", PipelineId("orders-7"), RunId("ab12"), "embedded")
PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations.md"
SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\} (-?[0-9.e+]+)$')


def busy() -> RunStatus:
    """A run with something of everything."""
    clock = ManualClock(now_ms=10_000)
    status = RunStatus(clock)
    status.become("running")
    status.note("triggered", "checkpoint 3", checkpoint=CheckpointId(3))
    clock.advance(40)
    status.decided(CheckpointId(3), 2_048, {"orders": 2})
    status.settled(CheckpointId(3))
    metrics: dict[str, Value] = {
        "parse.0.errors": 5,
        "parse.0.sizes": {"count": 2, "sum": 9},
        "parse.0.mood": "good",
    }
    flow = {Subtask('pa"rse', 0): Flow("high", 0.75, 1.0, 0.25, 12_345_678_901, 8_040, 0.125)}
    status.progress(0, 100, Measured(metrics), flow)
    status.discovery.looked(OperatorUid("orders"), "no broker answers")
    clock.advance(1_500)
    return status


def samples(text: str) -> dict[tuple[str, str], str]:
    """Value by name and labels, those that every sample has left out."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            matched = SAMPLE.fullmatch(line)
            assert matched is not None, line
            name, labels, value = matched.groups()
            rest = labels.removeprefix('job="orders",pipeline="orders-7",run="ab12"').removeprefix(",")
            found[name, rest] = value
    return found


def test_every_number_of_a_run_has_its_name() -> None:
    found = samples(exposition(SUBJECT, busy().snapshot()))

    assert found["tidegate_job_state", 'state="running"'] == "1"
    assert found["tidegate_job_state", 'state="failed"'] == "0"
    assert found["tidegate_records_read_total", ""] == "100"
    assert found["tidegate_checkpoints_total", 'outcome="settled"'] == "1"
    assert found["tidegate_checkpoint_settled_age_seconds", ""] == "1.5"
    assert found["tidegate_checkpoint_duration_seconds", ""] == "0.04"
    assert found["tidegate_sink_open_transactions", 'sink="orders"'] == "0"
    assert found["tidegate_checkpoint_size_bytes", ""] == "2048"
    subtask = 'operator="pa\\"rse",subtask="0"'
    assert found["tidegate_subtask_records_total", subtask] == "12345678901"
    assert found["tidegate_subtask_watermark_lag_seconds", subtask] == "3.5"
    assert found["tidegate_subtask_held_up_ratio", subtask] == "0.75"
    assert found["tidegate_subtask_reading_ratio", subtask] == "0.125"
    assert found["tidegate_discovery_failures_total", 'source="orders"'] == "1"
    assert found["tidegate_discovery_failing_seconds", 'source="orders"'] == "1.5"
    assert found["tidegate_user_metric", 'name="parse.0.errors"'] == "5"
    assert found["tidegate_user_metric", 'name="parse.0.sizes",part="sum"'] == "9"
    assert not any('mood"' in labels for _, labels in found)


def test_each_metric_is_explained_once_and_only_where_it_has_samples() -> None:
    text = exposition(SUBJECT, RunStatus(ManualClock()).snapshot())

    described = re.findall(r"^# TYPE (\S+) (gauge|counter)$", text, re.MULTILINE)
    assert len(described) == len(set(described))
    assert {name for name, _ in described} == {name for name, _ in samples(text)}
    assert "tidegate_checkpoint_settled_age_seconds" not in text


def test_all_names_appear_for_a_busy_run() -> None:
    assert {name for name, _ in samples(exposition(SUBJECT, busy().snapshot()))} == set(METRICS)


def test_the_page_of_operations_lists_every_metric_with_its_meaning() -> None:
    rows = re.findall(
        r"^\| `(tidegate_[a-z_]+)` \| (gauge|counter) \|(?: .*?)? \| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )

    assert {name: (kind, meaning) for name, kind, meaning in rows} == METRICS
