"""Sources with a loop of their own and sinks called with each record; in one process and in several."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.functions import ParallelSourceFunction, SinkFunction, SourceFunction
from tidegate.connectors.print import PrintSink
from tidegate.datastream import ProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.formats.avro import AvroInputFormat, AvroSchema
from tidegate.errors import ConfigError, JobFailedError
from tidegate.runtime.accumulators import IntCounter

TARGETS = ["inline", "embedded"]


def environment(target: str, **settings: Any) -> StreamExecutionEnvironment:
    defaults = {
        "pipeline.progress": "off",
        "parallelism.default": 2,
        "restart-strategy.fixed-delay.attempts": 0,
    }
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, **defaults, **settings}
    )


@pytest.fixture(params=TARGETS)
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    return environment(request.param)


class Letters(SourceFunction):
    def run(self, ctx: Any) -> None:
        for letter in "abc":
            ctx.collect(letter)


class Numbered(ParallelSourceFunction):
    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.of = runtime_context.get_number_of_parallel_subtasks()

    def run(self, ctx: Any) -> None:
        for number in range(self.index, 5_000, self.of):
            ctx.collect(number)


class Timed(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect_with_timestamp("first", 10)
        ctx.emit_watermark(10)
        ctx.mark_as_temporarily_idle()
        ctx.collect_with_timestamp("second", 11)
        ctx.collect("untimed")


class Seen(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class Broken(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        raise OSError("no such device")


class Endless(SourceFunction):
    """Ends only because it is told to, and waits in `run` for that."""

    def open(self, runtime_context: Any) -> None:
        self.told = threading.Event()

    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        self.told.wait()

    def cancel(self) -> None:
        self.told.set()


class Appending(SinkFunction):
    """Writes to a file of its own at each checkpoint."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, runtime_context: Any) -> None:
        self.path = Path(self.directory) / str(runtime_context.get_index_of_this_subtask())
        self.held: list[Any] = []

    def invoke(self, value: Any, context: Any) -> None:
        self.held.append([value, context.timestamp()])

    def flush(self) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in self.held)
        self.held = []


class Refusing(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        raise OSError("disk full")


def test_what_a_function_emits_is_read_once(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)

    assert list(env.add_source(Letters()).map(str.upper).execute_and_collect()) == ["A", "B", "C"]


def test_a_parallel_function_runs_in_every_subtask(env: StreamExecutionEnvironment) -> None:
    assert sorted(env.add_source(Numbered()).execute_and_collect()) == list(range(5_000))


def test_records_carry_the_times_and_watermarks_the_function_gave(env: StreamExecutionEnvironment) -> None:
    seen = list(env.set_parallelism(1).add_source(Timed()).process(Seen()).execute_and_collect())

    assert [(value, timestamp) for value, timestamp, _ in seen] == [
        ("first", 10),
        ("second", 11),
        ("untimed", None),
    ]
    assert [watermark for _, _, watermark in seen[1:]] == [10, 10]


class CountingSource(Letters):
    def open(self, runtime_context: Any) -> None:
        self.emitted = IntCounter()
        runtime_context.add_accumulator("letters", self.emitted)
        self.metric = runtime_context.get_metrics_group().counter("emitted")
        self.more = runtime_context.get_job_parameter("more", "")

    def run(self, ctx: Any) -> None:
        for letter in "abc" + self.more:
            self.emitted.add(1)
            self.metric.inc()
            ctx.collect(letter)


class CountingSink(SinkFunction):
    def open(self, runtime_context: Any) -> None:
        self.taken = IntCounter()
        runtime_context.add_accumulator("taken", self.taken)
        self.metric = runtime_context.get_metrics_group().counter("taken")

    def invoke(self, value: Any, context: Any) -> None:
        self.taken.add(1)
        self.metric.inc()


def test_source_and_sink_functions_show_accumulators_and_metrics_and_know_parameters(
    env: StreamExecutionEnvironment,
) -> None:
    env.set_parallelism(1).get_config().set_global_job_parameters({"more": "de"})
    env.add_source(CountingSource()).uid("in").add_sink(CountingSink()).uid("out")

    result = env.execute()

    assert result.get_all_accumulator_results() == {"letters": 5, "taken": 5}
    assert result.metrics == {"in.0.emitted": 5, "out.0.taken": 5}


def test_an_error_in_run_fails_the_job_and_names_the_function(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(
        JobFailedError,
        match=r"source function Broken \(uid 'Custom Source-1'.*failed in run: OSError: no such device",
    ):
        list(env.add_source(Broken()).execute_and_collect())


def test_a_waiting_function_is_cancelled_when_the_job_fails(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        list(env.add_source(Endless()).map(lambda value: value // 0).execute_and_collect())


def test_a_sink_function_gets_every_record_with_its_time(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    env.add_source(Timed()).add_sink(Appending(str(tmp_path)))

    env.execute()

    lines = [json.loads(line) for path in tmp_path.glob("[0-9]") for line in path.read_text().splitlines()]
    assert Counter(map(tuple, lines)) == Counter([("first", 10), ("second", 11), ("untimed", None)])


def test_an_error_in_invoke_fails_the_job_and_names_the_record(env: StreamExecutionEnvironment) -> None:
    env.from_collection(["x"]).add_sink(Refusing())

    with pytest.raises(
        JobFailedError, match=r"sink function Refusing .* failed in invoke on record 'x': OSError: disk full"
    ):
        env.execute()


def broken(value: Any) -> None:
    raise OSError("disk full")


def test_an_error_in_a_plain_function_names_it(env: StreamExecutionEnvironment) -> None:
    env.from_collection(["x"]).add_sink(broken)

    with pytest.raises(JobFailedError, match=r"sink function broken .* failed in invoke on record 'x'"):
        env.execute()


def test_anything_else_is_refused_with_the_method_to_use() -> None:
    env = environment("inline")

    with pytest.raises(
        ConfigError, match="add_source needs a SourceFunction; got int; use from_source for a Source"
    ):
        env.add_source(3)
    with pytest.raises(
        ConfigError, match="add_sink needs a function or a SinkFunction; got int; use sink_to for a Sink"
    ):
        env.from_collection([1]).add_sink(3)


def test_a_source_and_a_sink_are_taken_as_by_the_newer_methods(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment("inline")
    env.add_source(CollectionSource(["both"])).add_sink(PrintSink())
    env.execute()
    assert capsys.readouterr().out.endswith("both\n")


@pytest.mark.spec("003/SRC-01")
def test_source_functions_input_formats_and_sources_are_read_alike(tmp_path: Path) -> None:
    letters = [{"letter": letter} for letter in "abc"]
    schema = {"type": "record", "name": "L", "fields": [{"name": "letter", "type": "string"}]}
    with (tmp_path / "letters.avro").open("wb") as file:
        fastavro.writer(file, schema, letters)
    env = environment("inline")
    function = env.add_source(Letters())
    format_ = env.create_input(AvroInputFormat(str(tmp_path), AvroSchema.parse_string(json.dumps(schema))))
    source = env.from_source(CollectionSource(letters))

    read = function.union(*(each.map(lambda row: row["letter"]) for each in (format_, source)))

    assert Counter(read.execute_and_collect()) == Counter("abcabcabc")
