from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.errors import ConfigError, RecordError
from tidegate.options import from_assignments
from tidegate.runtime import options

INLINE = {"execution.target": "inline", "pipeline.progress": "off"}


class Parallelism(MapFunction):
    """Replaces each record by the number of subtasks it runs in."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> int:
        return self.parallelism


def environment(**settings: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment({**INLINE, **settings})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to start programs in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spec("004/AX-003")
@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize("client", ["environment variable", "command line"])
def test_operator_beats_environment_beats_client_beats_system(
    place: Path, monkeypatch: pytest.MonkeyPatch, client: str, target: str
) -> None:
    def used(*, in_environment: int | None = None, on_operator: int | None = None) -> set[int]:
        env = environment(**{"execution.target": target})
        if in_environment is not None:
            env.set_parallelism(in_environment)
        step = env.from_collection(range(20)).map(Parallelism())
        if on_operator is not None:
            step.set_parallelism(on_operator)
        return set(step.execute_and_collect())

    (place / "tidegate.toml").write_text("[parallelism]\ndefault = 1\n")
    if client == "command line":
        options.set_command_line(from_assignments(["parallelism.default=2"]))
    else:
        monkeypatch.setenv("TIDEGATE_PARALLELISM_DEFAULT", "2")

    assert used(in_environment=3, on_operator=4) == {4}
    assert used(in_environment=3) == {3}
    assert used() == {2}
    options.set_command_line(from_assignments([]))
    monkeypatch.delenv("TIDEGATE_PARALLELISM_DEFAULT", raising=False)
    assert used() == {1}


@pytest.mark.spec("000/TRF-08")
def test_a_step_has_the_parallelism_the_environment_had_when_it_was_written(
    anywhere: StreamExecutionEnvironment,
) -> None:
    first = anywhere.set_parallelism(2).from_collection(range(20)).map(Parallelism())
    anywhere.set_parallelism(3)
    second = first.rebalance().map(Parallelism())

    both = first.map(lambda found: ("first", found)).union(second.map(lambda found: ("second", found)))

    assert set(both.execute_and_collect()) == {("first", 2), ("second", 3)}


def test_the_command_line_beats_the_environment_variable(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_PARALLELISM_DEFAULT", "3")
    options.set_command_line(from_assignments(["parallelism.default=2"]))

    collected = environment().from_collection(range(9)).map(Parallelism()).execute_and_collect()

    assert set(collected) == {2}


WRONG: list[tuple[str, str, str]] = [
    ("environment", "TIDEGATE_PARALELISM_DEFAULT=2", "unknown option 'PARALELISM_DEFAULT' in environment"),
    ("environment", "TIDEGATE_PARALLELISM_DEFAULT=two", "option 'parallelism.default' in environment.*'two'"),
    ("file", "paralelism.default = 2", r"unknown option 'paralelism.default' in .*tidegate\.toml; did you"),
    ("file", "parallelism.default = true", r"option 'parallelism.default' in .*tidegate\.toml.*got True"),
    ("file", "parallelism default", r"configuration file .*tidegate\.toml cannot be read"),
    ("line", "paralelism.default=2", "unknown option 'paralelism.default' in command line; did you mean"),
    ("line", "execution.checkpointing.interval=soon", "got 'soon'; expected a duration such as"),
    (
        "line",
        "parallelism.default=0",
        "option 'parallelism.default' is out of range; got 0; expected at least 1",
    ),
    ("line", "restart-strategy.fixed-delay.attempts=-1", "got -1; expected at least 0"),
    ("line", "pipeline.progress=loud", "option 'pipeline.progress'.*'loud'.*one of 'auto', 'plain'"),
    ("line", "state.backend.type=rocks", "no backend is called 'rocks'; did you mean 'rocksdb'"),
    (
        "line",
        "testing.faults=commit.befor",
        "unknown crash point 'commit.befor'; did you mean 'commit.before'",
    ),
]


@pytest.mark.parametrize(("origin", "setting", "message"), WRONG, ids=[f"{o} {s}" for o, s, _ in WRONG])
def test_a_wrong_setting_gives_one_clear_message(
    place: Path, monkeypatch: pytest.MonkeyPatch, origin: str, setting: str, message: str
) -> None:
    if origin == "environment":
        name, _, value = setting.partition("=")
        monkeypatch.setenv(name, value)
    elif origin == "file":
        (place / "tidegate.toml").write_text(setting)
    else:
        extra = ["testing.faults-dir=witnesses"] if "faults" in setting else []
        options.set_command_line(from_assignments([setting, *extra]))

    with pytest.raises(ConfigError, match=message):
        list(environment().from_collection([1]).execute_and_collect())


def test_an_unknown_target_names_the_ones_there_are(place: Path) -> None:
    env = environment(**{"execution.target": "flink"})

    with pytest.raises(
        ConfigError,
        match=r"execution\.target is 'flink'; expected embedded, inline or the URL of a Spark master: ",
    ):
        list(env.from_collection([1]).execute_and_collect())


def test_fresh_and_a_checkpoint_to_go_back_to_exclude_each_other(place: Path) -> None:
    env = environment(**{"execution.fresh": True, "execution.savepoint.path": "3"})

    with pytest.raises(
        ConfigError, match="--fresh starts without state and -s starts from a checkpoint; got both; give one"
    ):
        list(env.from_collection([1]).execute_and_collect())


MISUSES: list[tuple[str, Callable[[StreamExecutionEnvironment], object], str]] = [
    ("map", lambda env: env.from_collection([1]).map(cast("Any", 7)), "map takes a function; got int"),
    (
        "key_by",
        lambda env: env.from_collection([1]).key_by(cast("Any", 1.5)),
        "key_by takes a function that returns a key, or the position or name of a field; got float",
    ),
    (
        "process",
        lambda env: env.from_collection([1]).key_by(abs).process(abs),  # type: ignore[arg-type] # the mistake
        "process takes a KeyedProcessFunction; got builtin",
    ),
    ("sink_to", lambda env: env.from_collection([1]).sink_to(print), "sink_to takes a Sink; got builtin"),  # type: ignore[arg-type] # the mistake
    ("from_source", lambda env: env.from_source([1]), "from_source takes a Source; got list"),  # type: ignore[arg-type] # the mistake
    ("uid", lambda env: env.from_collection([1]).uid(""), "uid is empty; give a name that stays the same"),
    (
        "parallelism",
        lambda env: env.set_parallelism(0),
        "parallelism is 0; expected an integer of at least 1",
    ),
    ("max", lambda env: env.set_max_parallelism(True), "max parallelism is True; expected an integer"),
    ("interval", lambda env: env.enable_checkpointing(-5), "checkpoint interval is -5; expected an integer"),
    ("nothing", lambda env: env.execute("empty"), "the program has no sink"),
]


@pytest.mark.parametrize(
    ("misuse", "message"), [(m, t) for _, m, t in MISUSES], ids=[n for n, _, _ in MISUSES]
)
def test_a_misuse_of_the_api_says_what_was_expected(
    place: Path, misuse: Callable[[StreamExecutionEnvironment], object], message: str
) -> None:
    env = environment(**{"state.checkpoints.dir": str(place / "state")})

    with pytest.raises(ConfigError, match=message):
        misuse(env)


def test_a_collection_that_cannot_travel_is_refused_by_item() -> None:
    with pytest.raises(RecordError, match=r"item 1 \(generator\) cannot be sent to another process"):
        environment().from_collection([1, (n for n in "ab")])


def collected() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 1}
    )
    return env.from_collection(range(5))


def test_results_can_be_closed_before_their_end() -> None:
    with collected().execute_and_collect("some") as results:
        first = [results.next(), next(results)]

    assert first == [0, 1]
    assert list(results) == []


def test_a_limit_answers_a_list_of_at_most_so_many() -> None:
    assert collected().execute_and_collect(limit=3) == [0, 1, 2]
    assert collected().execute_and_collect(limit=9) == [0, 1, 2, 3, 4]
    with pytest.raises(ConfigError, match="limit is 0; expected an integer of at least 1"):
        collected().execute_and_collect(limit=0)


def test_a_program_without_an_end_is_stopped_when_there_is_as_much_as_the_limit_says() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "execution.checkpointing.interval": "20 ms",
        }
    )
    endless = env.set_parallelism(1).from_source(GeneratorSource(int, None, rate_per_second=1_000))

    assert endless.execute_and_collect(limit=30) == list(range(30))


def test_collecting_from_a_job_that_is_stopped_says_that_not_all_is_there() -> None:
    def stop_at_three(number: int) -> int:
        if number == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return number

    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 1}
    )
    endless = env.from_source(GeneratorSource(stop_at_three, None, rate_per_second=500))

    with pytest.warns(
        RuntimeWarning, match="job 'half' was stopped before its input ended; the collected results"
    ):
        collected = list(endless.execute_and_collect("half"))

    assert collected == list(range(len(collected)))
