"""What a program gives to its functions and what they show; in one process and in several."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import ConfigError
from tidegate.runtime.accumulators import DoubleCounter, Histogram, IntCounter, LongCounter
from tidegate.runtime.metrics import Counter, MetricGroup
from tidegate.runtime.stream.execution_config import RuntimeExecutionMode
from tidegate.runtime.stream.parameters import ParameterTool


@pytest.fixture(params=["inline", "embedded"])
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": request.param,
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )


class Above(FilterFunction):
    """The documents' filter: its limit comes from the constructor, or from the job's parameters in `open`."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    def open(self, runtime_context: Any) -> None:
        if self.limit is None:
            self.limit = int(runtime_context.get_job_parameter("limit", "0"))

    def filter(self, value: int) -> bool:
        return self.limit is not None and value > self.limit


class Told:
    """Each kind of function appends what it finds in the job's parameters."""

    def open(self, runtime_context: Any) -> None:
        self.mine = runtime_context.get_job_parameter("myKey", None)


class ToldMap(Told, MapFunction):
    def map(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*value, self.mine)


class ToldFlatMap(Told, FlatMapFunction):
    def flat_map(self, value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield (*value, self.mine)


class ToldFilter(Told, FilterFunction):
    def filter(self, value: tuple[Any, ...]) -> bool:
        return bool(value[-1] == self.mine)


class ToldProcess(Told, ProcessFunction):
    def process_element(self, value: tuple[Any, ...], ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield (*value, self.mine)


class ToldKeyed(Told, KeyedProcessFunction):
    def process_element(self, value: tuple[Any, ...], ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield (*value, self.mine)


class Counting(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.number = IntCounter()
        self.lengths = Histogram()
        runtime_context.add_accumulator("numEles", self.number)
        runtime_context.add_accumulator("lengths", self.lengths)
        self.seen = runtime_context.get_metrics_group().add_group("records").counter("seen")

    def map(self, value: Any) -> Any:
        self.number.add(1)
        self.lengths.add(len(str(value)))
        self.seen.inc()
        return value


class Clashing(MapFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.add_accumulator("numEles", DoubleCounter())

    def map(self, value: Any) -> Any:
        return value


class Reading(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.path = runtime_context.get_distributed_cache().get_file("hdfsFile")
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return Path(self.path).read_text(), os.access(self.path, os.X_OK), self.path, self.subtask


class BadGauge(MapFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_metrics_group().gauge("age", lambda: 1 // 0)

    def map(self, value: Any) -> Any:
        return value


class Importing(MapFunction):
    def map(self, value: Any) -> Any:
        import a_module_of_the_program  # type: ignore[import-not-found] # the test writes it

        return a_module_of_the_program.ANSWER


@pytest.mark.spec("002/AX-51")
def test_a_filter_gets_its_limit_by_constructor_or_by_parameter(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_collection([1, 2, 3])

    by_constructor = list(numbers.filter(Above(2)).execute_and_collect())
    anywhere.get_config().set_global_job_parameters({"limit": "2"})
    by_parameter = list(numbers.filter(Above()).execute_and_collect())
    anywhere.get_config().set_global_job_parameters({})
    without = sorted(numbers.filter(Above()).execute_and_collect())

    assert (by_constructor, by_parameter, without) == ([3], [3], [1, 2, 3])


@pytest.mark.spec("002/AX-52")
@pytest.mark.parametrize(("given", "found"), [({"myKey": "myValue"}, "myValue"), ({}, None)])
def test_a_global_parameter_is_readable_in_every_kind_of_function(
    anywhere: StreamExecutionEnvironment, given: dict[str, str], found: str | None
) -> None:
    anywhere.get_config().set_global_job_parameters(ParameterTool.from_map(given))

    stream = anywhere.from_collection([(1,), (2,), (3,)]).map(ToldMap()).flat_map(ToldFlatMap())
    stream = stream.filter(ToldFilter()).rebalance().process(ToldProcess())
    told = stream.key_by(lambda value: value[0]).process(ToldKeyed())

    assert sorted(told.execute_and_collect()) == [(n, *[found] * 4) for n in (1, 2, 3)]


@pytest.mark.spec("002/AX-53")
@pytest.mark.parametrize("executable", [False, True])
def test_a_registered_file_is_on_every_worker(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, executable: bool
) -> None:
    (tmp_path / "words").write_text("text")
    anywhere.register_cached_file(f"file://{tmp_path}/words", "hdfsFile", executable)

    read = list(anywhere.from_collection(range(12)).map(Reading()).execute_and_collect())

    assert {(text, runs) for text, runs, _, _ in read} == {("text", executable)}
    assert str(tmp_path / "words") not in {path for _, _, path, _ in read}
    assert {subtask for *_, subtask in read} == set(range(anywhere.get_config().get_parallelism()))


@pytest.mark.spec("002/AX-54")
def test_accumulators_of_one_name_are_one(anywhere: StreamExecutionEnvironment) -> None:
    anywhere.from_collection([("b", 3)]).map(Counting()).print()
    one = anywhere.execute()
    anywhere.from_collection(range(4)).map(Counting()).print()
    anywhere.from_collection(range(10, 15)).map(Counting()).print()
    two = anywhere.execute()

    assert one.get_accumulator_result("numEles") == 1
    assert two.get_accumulator_result("numEles") == 9
    assert two.get_all_accumulator_results() == {"numEles": 9, "lengths": {1: 4, 2: 5}}


def test_metrics_of_functions_are_in_the_snapshot_of_the_run(env: StreamExecutionEnvironment) -> None:
    env.from_collection(range(10)).map(Counting()).uid("count").print()

    metrics = env.execute().metrics

    assert metrics == {"count.0.records.seen": 5, "count.1.records.seen": 5}


def test_a_gauge_that_fails_shows_why_and_the_job_goes_on(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1).from_collection([1]).map(BadGauge()).uid("bad").print()

    assert env.execute().metrics == {"bad.0.age": "ZeroDivisionError: integer division or modulo by zero"}


def test_accumulators_of_one_name_must_be_of_one_class(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(Counting()).map(Clashing()).print()

    with pytest.raises(
        ConfigError, match="accumulator 'numEles' has two types: IntCounter in one function and DoubleCounter"
    ):
        env.execute()


def test_a_python_file_is_importable_in_workers(
    env: StreamExecutionEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "a_module_of_the_program.py").write_text("ANSWER = 42")
    env.add_python_file(str(tmp_path / "a_module_of_the_program.py"))

    assert list(env.from_collection([1]).map(Importing()).execute_and_collect()) == [42]
    monkeypatch.delitem(sys.modules, "a_module_of_the_program", raising=False)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda env: env.add_python_file("/nowhere.py"), "python file '/nowhere.py' does not exist"),
        (
            lambda env: env.add_python_archive("a.zip"),
            "add_python_archive is not available.*use register_cached_file",
        ),
        (lambda env: env.set_python_requirements("r.txt"), "run `pip install -r r.txt` before it starts"),
        (
            lambda env: env.set_python_executable("/usr/bin/pypy"),
            "workers use the program's interpreter.*/usr/bin/pypy",
        ),
        (
            lambda env: env.set_runtime_mode("BATCH"),
            "set_runtime_mode takes a RuntimeExecutionMode",
        ),
        (
            lambda env: env.register_cached_file("hdfs:///a", "a"),
            "is on hdfs; expected a local file; copy it to this machine first",
        ),
        (lambda env: env.register_cached_file("/nowhere", "a"), "cached file '/nowhere' does not exist"),
        (
            lambda env: env.register_cached_file("/tmp", "a/b"),
            "name 'a/b' of a cached file is not a plain file name",
        ),
        (
            lambda env: env.get_config().set_global_job_parameters({"a": 1}),
            "job parameter 'a' is 1; expected a str",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_to_do(ask: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(StreamExecutionEnvironment.get_execution_environment())


def test_what_there_is_once_may_be_asked_for() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()

    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_python_executable(sys.executable)
    config = env.get_config().set_parallelism(3).set_max_parallelism(12)

    assert (config.get_parallelism(), env.get_config().get_max_parallelism()) == (3, 12)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda context: context.get_distributed_cache().get_file("b"),
            "no file is registered as 'b'; registered are none",
        ),
        (
            lambda context: context.add_accumulator("a", 0),
            r"takes an Accumulator such as IntCounter\(\); got int",
        ),
    ],
    ids=["file", "accumulator"],
)
def test_wrong_questions_of_functions_are_answered(
    env: StreamExecutionEnvironment, ask: Any, message: str
) -> None:
    class Asking(MapFunction):
        def open(self, runtime_context: Any) -> None:
            ask(runtime_context)

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(ConfigError, match=message):
        list(env.from_collection([1]).map(Asking()).execute_and_collect())


def test_an_unknown_accumulator_is_refused_with_those_known(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(Counting()).print()

    with pytest.raises(ConfigError, match="unknown accumulator 'total'; known are lengths, numEles"):
        env.execute().get_accumulator_result("total")


def test_numbers_add_up_whatever_their_class() -> None:
    whole, part = LongCounter(2), DoubleCounter(0.5)
    whole.merge(LongCounter(3))
    part.add(1.0)
    part.merge(DoubleCounter(1.0))

    assert (whole.get_local_value(), part.get_local_value()) == (5, 2.5)


def test_metrics_of_each_kind_say_where_they_stand() -> None:
    now = [0.0]
    group = MetricGroup("map.0", {}, lambda: now[0])
    group.gauge("age", lambda: 7)
    meter, seen = group.meter("rate", 10), group.distribution("sizes")
    seen.update(3)
    seen.update(1)
    meter.mark_event(20)
    now[0] = 10.0

    assert group.values() == {
        "map.0.age": 7,
        "map.0.rate": 2.0,
        "map.0.sizes": {"count": 2, "sum": 4, "min": 1, "max": 3},
    }
    assert isinstance(group.counter("n"), Counter)
    assert group.counter("n") is group.counter("n")
    with pytest.raises(ConfigError, match=r"metric 'n' of map\.0 is a Counter; got Meter; use another name"):
        group.meter("n")


def test_parameters_are_read_as_what_the_program_needs(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("# comment\nlimit = 3\nrate=0.5\nfast = true\n")
    found = ParameterTool.from_properties_file(str(tmp_path / "p"))

    assert (found.get_int("limit"), found.get_float("rate"), found.get_boolean("fast")) == (3, 0.5, True)
    assert (found.get_int("none", 1), found.has("rate"), found.to_map()["fast"]) == (1, True, "true")
    assert ParameterTool.from_args(["--offset", "-3"]).get_required("offset") == "-3"
    with pytest.raises(
        ConfigError, match=r"parameter 'rate' is '0\.5', which cannot be converted to the requested type"
    ):
        found.get_int("rate")
    with pytest.raises(ConfigError, match="parameter 'input' is missing; given are fast, limit, rate"):
        found.get_required("input")
    with pytest.raises(ConfigError, match="argument 'x' has no name; expected --name before it"):
        ParameterTool.from_args(["x"])
    with pytest.raises(ConfigError, match="properties file /nowhere cannot be read"):
        ParameterTool.from_properties_file("/nowhere")
