"""Metrics of a run in Prometheus text format 0.0.4. Pure. The names are a public interface.

Example:
    >>> from tidegate.clock import ManualClock
    >>> from tidegate.runtime.status import RunStatus
    >>> subject = Subject("orders", PipelineId("orders"), RunId("ab12"), "embedded")
    >>> text = exposition(subject, RunStatus(ManualClock()).snapshot())
    >>> print("\\n".join(text.splitlines()[:3]))
    # HELP tidegate_job_state 1 for the state that the job is in, 0 for the others.
    # TYPE tidegate_job_state gauge
    tidegate_job_state{job="orders",pipeline="orders",run="ab12",state="created"} 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tidegate.ids import PipelineId, RunId
from tidegate.runtime.observe.run_snapshot import RunSnapshot, State

__all__ = ["CONTENT_TYPE", "METRICS", "Subject", "exposition"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

METRICS: Final[Mapping[str, tuple[Literal["gauge", "counter"], str]]] = {
    "tidegate_job_state": ("gauge", "1 for the state that the job is in, 0 for the others."),
    "tidegate_uptime_seconds": ("gauge", "Seconds since the run started."),
    "tidegate_records_read_total": ("counter", "Records read by sources, replayed ones included."),
    "tidegate_restarts_total": ("counter", "Restarts of the job."),
    "tidegate_checkpoints_total": ("counter", "Checkpoints by outcome."),
    "tidegate_checkpoint_settled_age_seconds": (
        "gauge",
        "Seconds since the newest settled checkpoint was settled, that is, all output up to it was visible.",
    ),
    "tidegate_checkpoint_duration_seconds": (
        "gauge",
        "Seconds from trigger to decision of the newest decided checkpoint.",
    ),
    "tidegate_checkpoint_size_bytes": ("gauge", "Bytes that the newest decided checkpoint refers to."),
    "tidegate_open_transactions": (
        "gauge",
        "Committables that are decided and not yet known to be committed.",
    ),
    "tidegate_sink_open_transactions": (
        "gauge",
        "Committables of a sink that are decided and not yet known to be committed.",
    ),
    "tidegate_discovery_failures_total": (
        "counter",
        "Split discoveries of a source that failed, or skipped splits without read permission.",
    ),
    "tidegate_discovery_failing_seconds": (
        "gauge",
        "Seconds since split discovery of a source began to fail; 0 if the last one succeeded.",
    ),
    "tidegate_sink_commits_retried_total": (
        "counter",
        "Commits of a sink that were refused and are retried.",
    ),
    "tidegate_checkpoint_unsettled_age_seconds": (
        "gauge",
        "Seconds since the oldest unsettled checkpoint was decided; 0 if all output is visible.",
    ),
    "tidegate_operator_slow": ("gauge", "1 for the operator that is the bottleneck."),
    "tidegate_subtask_records_total": ("counter", "Records read or received in this attempt."),
    "tidegate_subtask_watermark_lag_seconds": ("gauge", "How far event time is behind the clock."),
    "tidegate_subtask_held_up_ratio": ("gauge", "Share of time under backpressure, waiting for a receiver."),
    "tidegate_subtask_reading_ratio": (
        "gauge",
        "Share of time that a source spent reading and processing records; low while it waits for data.",
    ),
    "tidegate_subtask_waiting_ratio": ("gauge", "Share of the subtask's input queue that is in use."),
    "tidegate_user_metric": (
        "gauge",
        "Metrics of user functions and state backends; each part of a distribution is a sample.",
    ),
}

_Labels: TypeAlias = Mapping[str, str]
_Sample: TypeAlias = tuple[str, _Labels, float]


@dataclass(frozen=True, slots=True)
class Subject:
    """The labels of all metrics."""

    job: str
    pipeline: PipelineId
    run: RunId
    target: str


def exposition(subject: Subject, run: RunSnapshot) -> str:
    """The page that is scraped."""
    common = {"job": subject.job, "pipeline": subject.pipeline, "run": subject.run}
    samples: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, labels, value in (*_of_job(run), *_of_operators(run), *_of_functions(run)):
        samples[name].append(_line(name, {**common, **labels}, value))
    return "".join(
        f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n{''.join(samples[name])}"
        for name, (kind, meaning) in METRICS.items()
        if samples[name]
    )


def _of_job(run: RunSnapshot) -> Iterator[_Sample]:
    for state in get_args(State):
        yield "tidegate_job_state", {"state": state}, state == run.state
    yield "tidegate_uptime_seconds", {}, run.elapsed_s
    yield "tidegate_records_read_total", {}, run.records
    yield "tidegate_restarts_total", {}, run.restarts
    for outcome, count in (("decided", run.decided), ("settled", run.settled), ("aborted", run.aborted)):
        yield "tidegate_checkpoints_total", {"outcome": outcome}, count
    if run.settled_age_s is not None:
        yield "tidegate_checkpoint_settled_age_seconds", {}, run.settled_age_s
    if run.checkpoint_ms is not None:
        yield "tidegate_checkpoint_duration_seconds", {}, run.checkpoint_ms / 1000
    if run.checkpoint_bytes is not None:
        yield "tidegate_checkpoint_size_bytes", {}, run.checkpoint_bytes
    yield "tidegate_checkpoint_unsettled_age_seconds", {}, run.unsettled_age_s or 0.0
    yield "tidegate_open_transactions", {}, run.open_transactions
    yield from _of_sinks(run)
    for source, discovery in run.discovery.items():
        yield "tidegate_discovery_failures_total", {"source": source}, discovery.failed
        yield "tidegate_discovery_failing_seconds", {"source": source}, discovery.failing_s or 0.0


def _of_sinks(run: RunSnapshot) -> Iterator[_Sample]:
    left: Counter[str] = Counter()
    for each in run.checkpoints:
        left.update(each.sinks)
    for sink, pieces in left.items():
        yield "tidegate_sink_open_transactions", {"sink": sink}, pieces
        yield "tidegate_sink_commits_retried_total", {"sink": sink}, run.commits_retried.get(sink, 0)


def _of_operators(run: RunSnapshot) -> Iterator[_Sample]:
    for operator, figures in run.operators.items():
        yield "tidegate_operator_slow", {"operator": operator}, operator == run.slowest
        for index in range(figures.subtasks):
            yield from _of_subtask(run, operator, index)


def _of_subtask(run: RunSnapshot, operator: str, index: int) -> Iterator[_Sample]:
    flow = run.flow.get(f"{operator}[{index}]")
    if flow is None:
        return
    labels = {"operator": operator, "subtask": str(index)}
    yield "tidegate_subtask_records_total", labels, flow.records
    yield "tidegate_subtask_held_up_ratio", labels, flow.held_up
    yield "tidegate_subtask_waiting_ratio", labels, flow.receiving
    if flow.reading is not None:
        yield "tidegate_subtask_reading_ratio", labels, flow.reading
    behind_ms = flow.behind_ms(run.at_ms)
    if behind_ms is not None:
        yield "tidegate_subtask_watermark_lag_seconds", labels, behind_ms / 1000


def _of_functions(run: RunSnapshot) -> Iterator[_Sample]:
    for name, value in run.metrics.items():
        if isinstance(value, dict):
            for part, number in value.items():
                yield "tidegate_user_metric", {"name": name, "part": part}, number
        elif not isinstance(value, str):
            yield "tidegate_user_metric", {"name": name}, value


def _line(name: str, labels: _Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {int(value) if isinstance(value, int) else value!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
