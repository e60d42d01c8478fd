"""A job on Spark is commanded as one on the embedded executor: cancelled, stopped, drained, paced."""

from __future__ import annotations

import contextlib
import json
import os
import re
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from tests.integration.spark.conftest import record_of, start
from tests.waiting import PATIENCE_S, until
from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Types
from tidegate.connectors.base import ListEnumerator, RangeSplit
from tidegate.connectors.collection import CollectSink, read_collected
from tidegate.connectors.spi import NotYet, Poll, Source, SourceReader
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.elements import Batch
from tidegate.errors import JobCancelledError, JobFailedError
from tidegate.ids import SplitId
from tidegate.runtime.cli.main import main

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def hanging(flag: Path) -> Callable[[Any], Any]:
    """A function that raises a flag and then waits for what never comes."""

    def hang(value: Any) -> Any:
        flag.touch()
        while True:
            SYSTEM_CLOCK.sleep(0.05)

    return hang


def log_of(source_available: int) -> Source[Any]:
    """One split in which so many records are there, and more may come; defined here so that it travels by value."""

    class LogReader(SourceReader[Any]):
        def __init__(self) -> None:
            self.split: Any = None

        def add_splits(self, splits: Any) -> None:
            (self.split,) = splits

        def no_more_splits(self) -> None:
            pass

        def poll(self, limit: int) -> Poll:
            at = self.split.next if self.split else source_available
            end = min(at + limit, source_available)
            if at == end:
                return NotYet()
            self.split = RangeSplit(self.split.id, end, None)
            return Batch(list(range(at, end)))

        def snapshot(self, checkpoint: Any) -> list[Any]:
            return [self.split] if self.split else []

    class Log(Source[Any]):
        split_type = RangeSplit
        bounded = False

        def open_enumerator(self, context: Any, restored: bytes | None) -> ListEnumerator[RangeSplit]:
            return ListEnumerator(context, [RangeSplit(SplitId("all"), 0, None)], RangeSplit, restored)

        def open_reader(self, context: Any) -> LogReader:
            return LogReader()

    return Log()


def at_the_end() -> KeyedProcessFunction:
    """Counts the records of a key, and says how many when event time comes to its end; travels by value."""

    class AtTheEnd(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update(self.count.value() + 1)
            ctx.timer_service().register_event_time_timer(2**60)
            return iter(())

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), self.count.value()

    return AtTheEnd()


class LogJob:
    """A program over a log, with its own checkpoints."""

    def __init__(self, directory: Path, available: int, **settings: Any) -> None:
        self.output = directory / "out"
        self.output.mkdir()
        self.env = StreamExecutionEnvironment.on_spark(
            "local[2]",
            {
                "execution.spark.epoch-records": 10,
                "state.checkpoints.dir": str(directory / "state"),
                "parallelism.default": 1,
                "pipeline.progress": "off",
                "pipeline.event-log": str(directory / "events.jsonl"),
                **{f"execution.{key.replace('_', '.')}": value for key, value in settings.items()},
            },
        )
        self.log = self.env.from_source(log_of(available))

    def written(self) -> list[Any]:
        return sorted(read_collected(str(self.output)))


@pytest.mark.crash
def test_a_job_is_cancelled_in_the_middle_of_an_epoch_and_leaves_nothing_half_written(job: Any) -> None:
    flag = job.directory / "hangs"
    client = start(job, before=hanging(flag))
    until(flag.exists, job=client)

    client.cancel().result(PATIENCE_S)

    with pytest.raises(JobCancelledError, match="job 'totals' was cancelled"):
        client.get_job_execution_result().result(PATIENCE_S)
    assert client.get_job_status().result().value == "canceled"
    assert job.rows() == []
    assert not list(job.output.rglob("*.pending"))
    assert job.run().resumed_from is None
    assert job.audit() == []


def test_a_savepoint_is_taken_while_the_job_runs_and_it_goes_on_from_there(job: Any) -> None:
    job.count, job.rate = 6_000, 500
    job.settings["execution.spark.epoch-records"] = 1_000
    client = start(job)
    place = client.trigger_savepoint(str(job.directory / "savepoints")).result(PATIENCE_S)
    stopped = client.stop().result(PATIENCE_S)
    assert Path(place, "_savepoint").exists()
    assert stopped.state == "stopped"
    assert 0 < stopped.records < job.count

    job.rate = 0

    result = job.run()

    assert result.resumed_from == stopped.checkpoint
    assert job.audit() == []


def test_what_is_stopped_for_good_with_a_savepoint_begins_anew(job: Any) -> None:
    job.count, job.rate = 6_000, 500
    job.settings["execution.spark.epoch-records"] = 1_000
    client = start(job)
    taken = client.stop_with_savepoint(False, str(job.directory / "savepoints"), for_good=True)
    assert Path(taken.result(PATIENCE_S), "_savepoint").exists()
    with pytest.raises(JobCancelledError, match="job 'totals' was cancelled after a savepoint"):
        client.get_job_execution_result().result(PATIENCE_S)

    job.rate = 0

    assert job.run().resumed_from is None


def test_draining_brings_event_time_to_its_end(tmp_path: Path) -> None:
    job = LogJob(tmp_path, 25)
    counted = job.log.key_by(lambda number: number % 2).process(at_the_end())
    counted.sink_to(CollectSink(str(job.output)))
    client = job.env.execute_async("drained")
    until(lambda: client.get_job_status().result().value != "created")

    client.stop(drain=True).result(PATIENCE_S)

    assert sum(count for _, count in job.written()) == client.get_job_execution_result().result().records


def test_available_now_reads_what_is_there_and_stops(tmp_path: Path) -> None:
    job = LogJob(tmp_path, 25, spark_trigger="available-now")
    job.log.sink_to(CollectSink(str(job.output)))

    result = job.env.execute("available")

    assert (result.state, result.records) == ("stopped", 25)
    assert job.written() == list(range(25))


@pytest.mark.parametrize("limit", [{"spark_epoch-bytes": 2_000}, {"spark_epoch-reading-time": "100 ms"}])
def test_bytes_and_time_limit_an_epoch_and_what_is_left_is_still_there(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    def slowly(number: int) -> int:
        if "spark_epoch-reading-time" in limit:
            SYSTEM_CLOCK.sleep(0.001)
        return number

    job = LogJob(tmp_path, 1_500, **limit, **{"spark_epoch-records": 10_000}, spark_trigger="available-now")
    job.log.map(slowly).rebalance().map(abs).sink_to(CollectSink(str(job.output)))

    result = job.env.execute("limited")

    assert result.checkpoint is not None
    assert result.checkpoint >= 3
    assert job.written() == list(range(1_500))


def test_once_is_one_epoch(tmp_path: Path) -> None:
    job = LogJob(tmp_path, 25, spark_trigger="once")
    job.log.sink_to(CollectSink(str(job.output)))

    result = job.env.execute("once")

    assert (result.state, result.records, result.checkpoint) == ("stopped", 10, 1)
    assert job.written() == list(range(10))


def test_interval_begins_one_epoch_per_interval_though_there_is_more_to_read(tmp_path: Path) -> None:
    job = LogJob(tmp_path, 35, spark_trigger="interval", checkpointing_interval="1500 ms")
    job.log.sink_to(CollectSink(str(job.output)))
    client = job.env.execute_async("paced")
    events = tmp_path / "events.jsonl"
    until(lambda: events.exists() and events.read_text().count('"decided"') >= 3, job=client)

    client.stop().result(PATIENCE_S)

    begun = re.findall(r'"at":"[^"]*T\d\d:(\d\d):([\d.]+)Z"[^\n]*"triggered"', events.read_text())
    seconds = [int(minute) * 60 + float(second) for minute, second in begun][:3]
    assert all((later - earlier) % 3_600 >= 1.4 for earlier, later in pairwise(seconds))


def test_a_record_on_which_the_program_hangs_is_named(job: Any) -> None:
    def hang(value: dict[str, Any]) -> dict[str, Any]:
        while value["id"] == 150:
            with contextlib.suppress(Exception):  # tries again, as one does
                SYSTEM_CLOCK.sleep(0.05)
        return value

    job.settings |= {
        "execution.checkpointing.timeout": "4 s",
        "restart-strategy.fixed-delay.attempts": 0,
    }
    with pytest.raises(
        JobFailedError, match=r"operator 'map' .* on record .*'id': 150.* OverdueError: the epoch did not end"
    ):
        job.run(before=hang)


def test_an_epoch_that_nothing_interrupts_is_ended_with_the_number_of_tasks_that_run(job: Any) -> None:
    def compute(value: dict[str, Any]) -> dict[str, Any]:
        if value["id"] == 150:
            sum(iter(int, 1))  # never comes back to the interpreter
        return value

    job.settings |= {
        "execution.checkpointing.timeout": "4 s",
        "restart-strategy.fixed-delay.attempts": 0,
    }
    with pytest.raises(
        JobFailedError, match=r"the epoch of checkpoint \d did not end within 4000 ms; 1 of its tasks run$"
    ):
        job.run(before=compute)


def test_commands_from_another_process_and_figures_work_as_on_the_embedded_executor(
    job: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    job.count, job.rate = 200_000, 2_000
    job.settings |= {"metrics.http.port": 0, "state.savepoints.dir": str(job.directory / "savepoints")}
    client = start(job)

    def asked(*command: str) -> Any:
        assert main([*command, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    until(lambda: asked("info", "totals")["settled"] >= 2, job=client)
    info = asked("info", "totals")
    (listed,) = asked("list")
    assert (listed["pipeline"], listed["target"], listed["state"]) == ("totals", "local[2]", "running")
    source, chain = info["operators"].values()
    assert source["records"] == info["records"] > 0
    assert (source["subtasks"], chain["subtasks"]) == (2, 2)
    assert chain["records"] == info["records"]
    assert any(each["state"] == "settled" and each["acked"] == 4 for each in asked("checkpoints", "totals"))
    with urllib.request.urlopen(f"{info['http']}/metrics") as page:
        assert 'tidegate_subtask_records_total{job="totals"' in page.read().decode()
    assert Path(asked("savepoint", "totals")["savepoint"], "_savepoint").exists()

    asked("cancel", "totals")

    assert client.get_job_status().result().value == "canceled"


def test_jobs_of_spark_are_named_after_the_program_and_the_checkpoint(job: Any) -> None:
    job.run()

    context = SparkContext._active_spark_context
    assert context is not None
    jobs = context._jsc.sc().statusStore().jobsList(None)
    names = [jobs.apply(at).description().get() for at in range(jobs.size())]
    assert any(
        re.fullmatch(r"checkpoint 1 of totals: source-1, map-\d+ \| process-\d+, files", name)
        for name in names
    ), names


@pytest.mark.spec("004/AX-040")
def test_jobs_of_one_session_have_one_owner_and_wait_while_others_have_its_slots(
    job: Any, tmp_path: Path
) -> None:
    released, ran = tmp_path / "released", tmp_path / "ran"

    def hold(value: Any) -> Any:
        while not released.exists():
            SYSTEM_CLOCK.sleep(0.05)
        return value

    def tell(value: Any) -> Any:
        ran.touch()
        return value

    other = type(job)(tmp_path / "other", job.count)
    clients = [start(job, before=hold)]
    until(lambda: running() == [2])
    clients.append(start(other, before=tell))
    until(lambda: len(running()) == 2)
    SYSTEM_CLOCK.sleep(0.5)

    assert sorted(running()) == [0, 2]
    assert not ran.exists()
    assert {record_of(each).lease.pid for each in (job, other)} == {os.getpid()}
    released.touch()
    results = [client.get_job_execution_result().result(PATIENCE_S) for client in clients]
    assert [result.state for result in results] == ["finished"] * 2
    assert job.audit() == other.audit() == []


def running() -> list[int]:
    """How many tasks of each job Spark runs at this moment."""
    tracker = SparkContext.getOrCreate().statusTracker()
    infos = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [[tracker.getStageInfo(stage) for stage in info.stageIds] for info in infos if info is not None]
    return [sum(stage.numActiveTasks for stage in job if stage is not None) for job in stages]


def states(job: Any) -> list[str]:
    """What a job was, one after the other; every run begins as created."""
    events = map(json.loads, (job.directory / "events").read_text().splitlines())
    return ["created", *(event["text"] for event in events if event["what"] == "state")]


@pytest.mark.spec("004/AX-042")
@pytest.mark.parametrize(
    ("faults", "restarts", "trace"),
    [
        ("", 0, ["created", "running", "finished"]),
        (
            "taskmanager-1/task.after-snapshot!raise",
            1,
            ["created", "running", "failing", "restarting", "created", "running", "finished"],
        ),
        ("taskmanager-1/task.after-snapshot!raise", 0, ["created", "running", "failing", "failed"]),
    ],
    ids=["finished", "restarted", "failed"],
)
def test_a_job_on_spark_passes_through_the_states_of_what_happens_to_it(
    job: Any, faults: str, restarts: int, trace: list[str]
) -> None:
    job.count = 100
    job.settings |= {
        "pipeline.event-log": str(job.directory / "events"),
        "restart-strategy.fixed-delay.attempts": restarts,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    if faults:
        job.arm(faults)

    with contextlib.suppress(JobFailedError):
        job.run()

    assert states(job) == trace


@pytest.mark.spec("004/AX-042")
def test_a_job_on_spark_that_is_cancelled_was_cancelling(job: Any) -> None:
    job.count, job.rate = 40_000, 500
    job.settings["pipeline.event-log"] = str(job.directory / "events")
    client = start(job)
    until(lambda: client.get_job_status().result().value != "created")

    client.cancel().result(PATIENCE_S)

    assert states(job) == ["created", "running", "cancelling", "canceled"]


@pytest.mark.spec("004/AX-028")
@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        ({"restart-strategy": "fixed-delay", "restart-strategy.fixed-delay.attempts": 3}, 4),
        (
            {
                "restart-strategy": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": 2,
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
            },
            3,
        ),
        ({"restart-strategy": "none"}, 1),
    ],
    ids=["fixed-delay", "failure-rate", "none"],
)
def test_a_strategy_says_how_often_a_job_on_spark_that_always_fails_is_started(
    job: Any, settings: dict[str, Any], starts: int
) -> None:
    def fail(value: Any) -> Any:
        raise ValueError("always")

    job.settings |= {
        **settings,
        "restart-strategy.fixed-delay.delay": "1 ms",
        "restart-strategy.failure-rate.delay": "1 ms",
        "pipeline.event-log": str(job.directory / "events"),
    }
    with pytest.raises(JobFailedError, match="always"):
        job.run(before=fail)

    assert states(job).count("running") == starts


@pytest.mark.spec("004/AX-029")
def test_a_job_on_spark_goes_on_from_the_metadata_of_a_checkpoint_under_another_id(job: Any) -> None:
    job.count, job.rate = 6_000, 500
    job.settings["execution.spark.epoch-records"] = 1_000
    client = start(job)
    stopped = client.stop_with_savepoint(False, str(job.directory / "savepoints"), format_type="native")
    stopped.result(PATIENCE_S)
    first = client.get_job_execution_result().result(PATIENCE_S)
    metadata = job.directory / "state" / first.run / f"chk-{first.checkpoint}" / "_metadata"
    job.settings |= {"execution.savepoint.path": str(metadata)}
    job.rate = 0

    result = job.run()

    assert result.run != first.run
    assert result.records == job.count - first.records
    assert job.audit() == []
