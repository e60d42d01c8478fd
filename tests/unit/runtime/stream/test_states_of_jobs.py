"""The states that jobs and their tasks pass through, and how often and when jobs are started again, from their event logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.runtime.stream import observed as observing
from tests.waiting import until
from tidegate.backends.storage import open_storage
from tidegate.clock import SystemClock
from tidegate.connectors.base import RangeReader
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, ReaderContext
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.errors import CommitFailedError, FencedError, JobCancelledError, JobFailedError
from tidegate.ids import CheckpointId, PipelineId, RunId
from tidegate.runtime.checkpoint.record import read_record, record_name
from tidegate.runtime.embedded import jobmanager
from tidegate.runtime.graph.execution_graph import Execution, ExecutionGraph
from tidegate.runtime.schedule.states import JobLife, TaskState
from tidegate.twophase.spi import Committable, WriterContext

Env = StreamExecutionEnvironment


class Fails(MapFunction):
    """Fails at the last of ten numbers, in so many attempts."""

    def __init__(self, directory: Path, times: int) -> None:
        self.attempts, self.times = directory / "attempts", times

    def map(self, value: int) -> int:
        if value == 9:
            with self.attempts.open("a") as attempts:
                attempts.write(".")
            if len(self.attempts.read_text()) <= self.times:
                raise ValueError("the last number is missing")
        return value


@dataclass(frozen=True)
class Numbers(GeneratorSource[int]):
    """Ten numbers that are read once all tasks of an attempt run, as one that fails before leaves a job created."""

    directory: str = ""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return WhenRunning(self)


class WhenRunning(RangeReader):
    def __init__(self, source: Numbers) -> None:
        super().__init__(source._read)
        self._directory = Path(source.directory)

    def poll(self, limit: int) -> Poll:
        return super().poll(limit) if trace(self._directory)[-1] == "running" else NotYet(1)


class Refused(FileSink):
    """Nothing that it has prepared can be committed."""

    def pre_commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        raise CommitFailedError("these files cannot be committed; nothing of them is visible")


class Leaping(SystemClock):
    """Time passes at a pause instead of being waited for: to the next of some moments, or as long as the pause is."""

    def __init__(self, *moments_s: float) -> None:
        self.pauses: list[float] = []
        self._moments = list(moments_s)
        self._began, self._ahead = super().monotonic(), 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    def now_ms(self) -> int:
        return super().now_ms() + int(self._ahead * 1_000)

    def leap(self, seconds: float) -> None:
        self._ahead += seconds

    def sleep(self, seconds: float) -> None:
        if seconds < 1:
            super().sleep(seconds)
            return
        self.pauses.append(seconds)
        moment = self._moments.pop(0) if self._moments else self.monotonic() - self._began + seconds
        self.leap(max(seconds, moment - (self.monotonic() - self._began)))


@pytest.fixture
def env(anywhere: Env, tmp_path: Path) -> Env:
    """An environment whose jobs write an event log; a failure is answered three times."""
    anywhere.configure(
        {
            "pipeline.event-log": str(tmp_path / "events"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": "1 ms",
            "high-availability.lease": "1 h",
        }
    )
    return anywhere


def failing(env: Env, directory: Path, times: int) -> Env:
    """Ten numbers from one subtask to files written by all."""
    numbers = env.from_source(Numbers(int, 10, directory=str(directory))).set_parallelism(1)
    numbers.map(Fails(directory, times)).set_parallelism(1).rebalance().sink_to(
        FileSink(str(directory / "out"))
    )
    return env


def events(directory: Path, what: str) -> list[str]:
    lines = (directory / "events").read_text().splitlines()
    return [event["text"] for event in map(json.loads, lines) if event["what"] == what]


def trace(directory: Path) -> list[str]:
    """The state that a job begins with is no event."""
    return ["created", *events(directory, "state")]


def attempts(directory: Path) -> int:
    return len((directory / "attempts").read_text())


def written(directory: Path) -> list[int]:
    parts = (directory / "out").glob("part-*")
    return sorted(int(line) for part in parts for line in part.read_text().splitlines())


AGAIN = ["failing", "restarting", "created", "running"]


@pytest.mark.spec("003/JM-05", "003/JM-06", "003/JM-08")
@pytest.mark.parametrize("times", [0, 1, 3])
@pytest.mark.spec("004/LIF-002", "004/LIF-005")
def test_a_job_runs_until_it_is_finished_and_is_created_again_after_each_failure(
    env: Env, tmp_path: Path, times: int
) -> None:
    result = failing(env, tmp_path, times).execute()

    assert trace(tmp_path) == ["created", "running", *AGAIN * times, "finished"]
    assert len(events(tmp_path, "restart")) == result.restarts == times
    assert written(tmp_path) == list(range(10))


@pytest.mark.spec("003/JM-07")
@pytest.mark.spec("004/LIF-004")
def test_a_job_has_failed_when_its_restarts_are_used_up(env: Env, tmp_path: Path) -> None:
    env.configure({"restart-strategy.fixed-delay.attempts": 2})
    with pytest.raises(JobFailedError, match=r"its restarts are used up: .*the last number is missing"):
        failing(env, tmp_path, 9).execute()

    assert trace(tmp_path) == ["created", "running", *AGAIN * 2, "failing", "failed"]
    assert written(tmp_path) == []


@pytest.mark.spec("003/JM-07", "003/JM-09")
def test_a_job_fails_at_once_of_what_a_restart_cannot_mend(env: Env, tmp_path: Path) -> None:
    numbers = env.from_source(Numbers(int, 10, directory=str(tmp_path)))
    numbers.sink_to(Refused(str(tmp_path / "out")))
    with pytest.raises(CommitFailedError, match="cannot be committed"):
        env.execute()

    assert trace(tmp_path) == ["created", "running", "failing", "failed"]
    assert events(tmp_path, "restart") == []


@pytest.mark.spec("003/JM-10")
def test_a_job_that_is_cancelled_ends_when_its_tasks_have(env: Env, tmp_path: Path) -> None:
    env.from_source(GeneratorSource(int, None)).sink_to(FileSink(str(tmp_path / "out")))
    client = env.execute_async()
    until(lambda: trace(tmp_path)[-1] == "running", job=client)
    client.cancel()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(timeout=120)

    assert trace(tmp_path) == ["created", "running", "cancelling", "canceled"]
    assert written(tmp_path) == []


@pytest.mark.spec("003/JM-11")
@pytest.mark.spec("004/LIF-008")
def test_a_job_that_loses_its_pipeline_is_suspended_and_created_again_by_the_next_owner(
    env: Env, tmp_path: Path
) -> None:
    env.configure(
        {"execution.checkpointing.interval": "20 ms", "state.checkpoints.dir": str(tmp_path / "state")}
    )
    numbers = GeneratorSource(int, 2_000, rate_per_second=1_000.0)
    env.from_source(numbers).sink_to(FileSink(str(tmp_path / "out")))
    first = env.execute_async("numbers")
    until(lambda: len(events(tmp_path, "settled")) > 1, job=first)
    steal(tmp_path / "state", PipelineId("numbers"))
    with pytest.raises(FencedError):
        first.get_job_execution_result().result(timeout=120)

    assert trace(tmp_path) == ["created", "running", "suspended"]
    (tmp_path / "events").unlink()
    env.from_source(numbers).sink_to(FileSink(str(tmp_path / "out")))
    second = env.execute("numbers")
    assert trace(tmp_path) == ["created", "running", "finished"]
    assert second.resumed_from is not None
    assert written(tmp_path) == list(range(2_000))


def steal(root: Path, pipeline: PipelineId) -> None:
    """Become the owner of a pipeline as a process does that took the other one for dead, and end without a word."""
    decisions = open_storage(str(root)).decisions
    assert decisions is not None
    swapped = False
    while not swapped:
        record, tag = read_record(decisions, pipeline)
        assert record is not None
        lease = msgspec.structs.replace(record.lease, run=RunId("another"), pid=2**22 + 1)
        stolen = msgspec.structs.replace(record, lease=lease, newest_id=CheckpointId(record.newest_id + 1))
        swapped = decisions.swap(record_name(pipeline), tag, msgspec.msgpack.encode(stolen))


@pytest.fixture
def leaping(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Leaping]:
    """Gives the coordinator of the next jobs a clock that leaps."""

    def install(*moments_s: float) -> Leaping:
        clock = Leaping(*moments_s)
        monkeypatch.setattr("tidegate.runtime.launch.SYSTEM_CLOCK", clock)
        return clock

    return install


@pytest.mark.spec("002/AX-48")
@pytest.mark.parametrize("failures", [3, 4])
def test_three_failures_are_each_followed_by_an_attempt_after_ten_seconds_and_the_fourth_is_final(
    env: Env, tmp_path: Path, leaping: Callable[..., Leaping], failures: int
) -> None:
    env.configure({"restart-strategy.fixed-delay.delay": "10 s"})
    clock = leaping()
    job = failing(env, tmp_path, failures)
    if failures == 3:
        job.execute()
    else:
        with pytest.raises(JobFailedError, match="restarts are used up"):
            job.execute()

    end = ["finished"] if failures == 3 else ["failing", "failed"]
    assert trace(tmp_path) == ["created", "running", *AGAIN * 3, *end]
    assert (clock.pauses, attempts(tmp_path)) == ([10, 10, 10], 4)


@pytest.mark.spec("002/AX-49")
@pytest.mark.parametrize(("minute", "fails"), [(3, True), (6, False)])
def test_the_fourth_failure_ends_a_job_only_within_five_minutes_of_the_first(
    env: Env, tmp_path: Path, leaping: Callable[..., Leaping], minute: int, fails: bool
) -> None:
    env.configure(
        {
            "restart-strategy.type": "failure-rate",
            "restart-strategy.failure-rate.max-failures-per-interval": 3,
            "restart-strategy.failure-rate.failure-rate-interval": "5 min",
            "restart-strategy.failure-rate.delay": "10 s",
        }
    )
    # When the second, third and fourth attempt begin, which fail at once.
    clock = leaping(60, 120, minute * 60)
    job = failing(env, tmp_path, 4)
    if fails:
        with pytest.raises(JobFailedError, match="restarts are used up"):
            job.execute()
    else:
        job.execute()

    assert trace(tmp_path)[-1] == ("failed" if fails else "finished")
    assert (clock.pauses, attempts(tmp_path)) == (([10] * 3, 4) if fails else ([10] * 4, 5))


class Prepares(FileSink):
    """Has the test look at the job, in whose process it runs, whenever a checkpoint reaches it."""

    def open_writer(self, context: WriterContext) -> Any:
        writer = super().open_writer(context)

        class Writer(type(writer)):  # type: ignore[misc]  # whichever class it is
            def prepare(self, checkpoint: CheckpointId) -> Any:
                observing.LOOK()
                return super().prepare(checkpoint)

        writer.__class__ = Writer
        return writer


@pytest.mark.spec("002/AX-44")
def test_a_checkpoint_is_dropped_after_a_minute_and_none_begins_beside_another_or_within_half_a_second_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaping: Callable[..., Leaping]
) -> None:
    clock = leaping()
    lasting_s = [60.0, 0.9]

    def look() -> None:
        if lasting_s:
            clock.leap(lasting_s.pop(0))
            if lasting_s:
                until(lambda: events(tmp_path, "aborted"))

    monkeypatch.setattr(observing, "LOOK", look)
    env = Env.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "pipeline.event-log": str(tmp_path / "events"),
            "parallelism.default": 1,
            "high-availability.lease": "1 h",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.min-pause": "500 ms",
            "execution.checkpointing.timeout": "60 s",
            "execution.checkpointing.tolerable-failed-checkpoints": 1,
        }
    )
    env.get_checkpoint_config().set_max_concurrent_checkpoints(1)
    numbers = env.from_source(GeneratorSource(int, None, rate_per_second=100.0))
    numbers.sink_to(Prepares(str(tmp_path / "out")))
    client = env.execute_async()
    until(lambda: len(events(tmp_path, "decided")) == 3, job=client)
    client.cancel().result(timeout=120)

    lines = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    turns = [each for each in lines if each["what"] in ("triggered", "aborted", "decided")]
    begun, ended = turns[0:8:2], turns[1:8:2]
    assert [each["what"] for each in begun] == ["triggered"] * 4, "none begins while one is under way"
    assert [each["what"] for each in ended] == ["aborted", "decided", "decided", "decided"]
    assert "not acknowledged within 60000 ms" in ended[0]["text"]
    passed = [
        [(at_ms(turn) - at_ms(before)) for turn, before in zip(begun[1:], those[:-1], strict=True)]
        for those in (ended, begun)
    ]
    assert min(passed[0]) >= 499, "from the end of one to the next; times are cut to milliseconds"
    assert min(passed[1]) >= 999, "from one to the next"
    assert passed[1][1] >= 900 + 499, "the pause counts from the end of what took longer"
    assert at_ms(ended[0]) - at_ms(begun[0]) >= 60_000


def at_ms(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp() * 1_000


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> tuple[list[ExecutionGraph], list[tuple[str, str]]]:
    """The graphs that coordinators of this process run, and each state of a job or an attempt, in their order."""
    graphs: list[ExecutionGraph] = []
    seen: list[tuple[str, str]] = []

    class Observed(ExecutionGraph):
        def __init__(self, job: Any) -> None:
            super().__init__(job)
            graphs.append(self)

    def task(execution: Execution, state: TaskState) -> None:
        begins(execution, state)
        seen.append((f"{execution.id.subtask} of {execution.id.attempt}", state))

    def job(life: JobLife, state: Any) -> bool:
        changes = becomes(life, state)
        if changes:
            seen.append(("job", state))
        return changes

    begins, becomes = Execution.become, JobLife.become
    monkeypatch.setattr(jobmanager, "ExecutionGraph", Observed)
    monkeypatch.setattr(Execution, "become", task)
    monkeypatch.setattr(JobLife, "become", job)
    return graphs, seen


@pytest.mark.spec("004/AX-043", "003/JM-06", "003/JM-19", "003/JM-20")
@pytest.mark.spec("004/LIF-003", "004/LIF-010", "004/LIF-011")
def test_a_second_attempt_of_each_task_follows_when_all_of_the_first_have_ended(
    env: Env, tmp_path: Path, observed: tuple[list[ExecutionGraph], list[tuple[str, str]]]
) -> None:
    numbers = env.from_source(Numbers(int, 10, directory=str(tmp_path))).set_parallelism(1)
    numbers.map(Fails(tmp_path, 1)).set_parallelism(2).sink_to(FileSink(str(tmp_path / "out")))
    env.execute()

    ((graph,), seen) = observed
    for vertex in graph.vertices:
        _, second = vertex.executions
        assert [each.id.attempt for each in vertex.executions] == [1, 2]
        assert second.state == vertex.state == "finished"
    ends = sorted(vertex.executions[0].state for vertex in graph.vertices)
    assert set(ends) == {"canceled", "failed"}
    failing_at, again_at = seen.index(("job", "failing")), seen.index(("job", "restarting"))
    ended = [state for who, state in seen[:again_at] if who != "job" and state in ("failed", "canceled")]
    assert sorted(ended) == ends, "every task has ended before the job is restarted"
    assert failing_at < again_at
    traces: dict[str, list[str]] = {}
    for who, state in seen:
        traces.setdefault(who, ["created", "scheduled"]).append(state)
    begins = ["created", "scheduled", "deploying", "running"]
    assert {tuple(trace) for who, trace in traces.items() if who.endswith("of 1")} == {
        (*begins, "failed"),
        (*begins, "canceling", "canceled"),
    }
    assert all(trace == [*begins, "finished"] for who, trace in traces.items() if who.endswith("of 2"))
