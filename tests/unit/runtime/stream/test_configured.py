"""Settings of an environment under PyFlink's names."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.common import Duration, Instant, RestartStrategies, RestartStrategyConfiguration, Types
from tidegate.common.restart_strategy import RestartStrategies as Strategies
from tidegate.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    TimeDomain,
)
from tidegate.errors import ConfigError, JobFailedError


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off"}
    )


def test_an_environment_tells_its_settings(env: StreamExecutionEnvironment) -> None:
    assert (env.get_parallelism(), env.get_max_parallelism()) == (-1, -1)

    env.set_parallelism(3).set_max_parallelism(64)

    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 64)
    assert env.get_checkpoint_interval() == 10_000
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.EXACTLY_ONCE
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    env.close()


def test_what_tunes_nothing_is_accepted(env: StreamExecutionEnvironment) -> None:
    config = env.get_config().enable_auto_generated_uids()
    before = (
        config.is_object_reuse_enabled(),
        config.is_closure_cleaner_enabled(),
        config.is_use_snapshot_compression(),
    )
    config.enable_object_reuse().disable_closure_cleaner().set_use_snapshot_compression(True)

    told = env.get_config()
    assert before == (False, True, False)
    assert told.is_object_reuse_enabled()
    assert not told.is_closure_cleaner_enabled()
    assert told.is_use_snapshot_compression()
    assert told.has_auto_generated_uids_enabled()
    told.disable_object_reuse().enable_closure_cleaner().set_use_snapshot_compression(False)
    assert not config.is_object_reuse_enabled()
    assert config.is_closure_cleaner_enabled()
    assert not config.is_use_snapshot_compression()


def test_getters_answer_what_was_set_under_other_names_too(env: StreamExecutionEnvironment) -> None:
    assert env.get_config().get_auto_watermark_interval() == 200
    env.get_config().set_auto_watermark_interval(50).set_max_parallelism(64)
    assert env.get_config().get_auto_watermark_interval() == 50

    env.configure({"pipeline.max-parallelism": "32", "pipeline.auto-watermark-interval": "1 s"})
    assert env.get_max_parallelism() == 32
    assert env.get_config().get_auto_watermark_interval() == 1_000
    with pytest.raises(
        ConfigError, match="auto watermark interval is -1; expected milliseconds, or 0 to turn it off"
    ):
        env.get_config().set_auto_watermark_interval(-1)


class Fail(MapFunction):
    """Notes each of its starts in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def map(self, value: int) -> int:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(".")
        raise ValueError(value)


@pytest.mark.parametrize(
    ("strategy", "attempts"),
    [
        (RestartStrategies.no_restart(), 0),
        (RestartStrategies.fixed_delay_restart(2, 1), 2),
        (RestartStrategies.failure_rate_restart(3, timedelta(minutes=5), 1), 3),
    ],
    ids=["none", "fixed delay", "failure rate"],
)
def test_a_restart_strategy_decides_how_often_a_job_starts_again(
    env: StreamExecutionEnvironment, tmp_path: Path, strategy: RestartStrategyConfiguration, attempts: int
) -> None:
    with pytest.warns(
        DeprecationWarning, match=r"set_restart_strategy\(...\) is deprecated; use the settings"
    ):
        env.set_restart_strategy(strategy)
    env.set_parallelism(1).from_collection([1]).map(Fail(tmp_path / "starts")).print()

    with pytest.raises(JobFailedError, match="its restarts are used up"):
        env.execute("strategy")

    assert len((tmp_path / "starts").read_text(encoding="utf-8")) == attempts + 1


def test_a_strategy_describes_itself() -> None:
    fixed = Strategies.FixedDelayRestartStrategyConfiguration(5, 2_000)

    assert fixed.get_restart_attempts() == 5
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=2)
    assert RestartStrategies.no_restart().get_description() == "Restart deactivated."
    assert RestartStrategies.fall_back_restart().get_description().startswith("Cluster level default")
    assert RestartStrategies.fall_back_restart().settings() == {}
    rate = Strategies.FailureRateRestartStrategyConfiguration(3, timedelta(minutes=5), 10_000)
    assert rate.get_max_failure_rate() == 3
    assert rate.get_failure_interval() == timedelta(minutes=5)
    assert rate.get_delay_between_attempts_interval() == timedelta(seconds=10)
    assert "3 failures within interval 300000 ms and fixed delay 10000 ms" in rate.get_description()


@pytest.mark.spec("002/AX-50")
@pytest.mark.parametrize("target", ["inline", "embedded"], ids=["inline", "embedded-1"])
@pytest.mark.parametrize(
    ("cluster", "starts"),
    [({"restart-strategy.fixed-delay.attempts": 2}, 3), ({"restart-strategy": "none"}, 1)],
    ids=["fixed delay where nothing is set", "the cluster's"],
)
def test_without_a_strategy_of_its_own_a_job_has_that_of_the_settings_from_outside(
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: dict[str, Any],
    starts: int,
) -> None:
    """Which is fixed delay where they name none; here without the pause, and with fewer attempts."""
    settings = {
        "restart-strategy.fixed-delay.delay": 0,
        "execution.checkpointing.interval": "1 min",
        **cluster,
    }
    for key, value in settings.items():
        monkeypatch.setenv("TIDEGATE_" + re.sub(r"[.-]", "_", key).upper(), str(value))
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, "pipeline.progress": "off"}
    )
    with pytest.warns(DeprecationWarning, match="set_restart_strategy"):
        env.set_restart_strategy(RestartStrategies.fall_back_restart())
    env.set_parallelism(1).from_collection([1]).map(Fail(tmp_path / "starts")).print()

    with pytest.raises(JobFailedError, match="its restarts are used up"):
        env.execute("fallback")

    assert len((tmp_path / "starts").read_text(encoding="utf-8")) == starts


def test_a_state_backend_can_be_said_in_the_old_way(env: StreamExecutionEnvironment) -> None:
    told = r"set_state_backend\(...\) is deprecated; use the setting"
    for backend in (HashMapStateBackend(), EmbeddedRocksDBStateBackend(True)):
        with pytest.warns(DeprecationWarning, match=told):
            env.set_state_backend(backend)

    assert EmbeddedRocksDBStateBackend().is_incremental_checkpoints_enabled()
    assert sorted(env.from_collection([2, 1]).key_by(str).reduce(max).execute_and_collect()) == [1, 2]
    with (
        pytest.warns(DeprecationWarning, match=told),
        pytest.raises(ConfigError, match="set_state_backend takes a StateBackend; got str"),
    ):
        env.set_state_backend("rocksdb")  # type: ignore[arg-type] # what is refused


@pytest.mark.spec("003/TC-22")
def test_jars_and_class_paths_are_accepted_and_said_not_to_be_needed(env: StreamExecutionEnvironment) -> None:
    with pytest.warns(
        UserWarning, match=r"^jars have no effect: file:///a.jar, b.jar is ignored; connectors are"
    ):
        env.add_jars("file:///a.jar", "b.jar")
    with pytest.warns(UserWarning, match=r"^class paths have no effect: file:///a is ignored"):
        env.add_classpaths("file:///a")


def test_a_method_that_will_not_come_says_why(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1])

    with pytest.raises(
        AttributeError, match=r"DataStream.cache is not available: results are not kept between"
    ):
        stream.cache()  # type: ignore[attr-defined] # what is refused
    with pytest.raises(
        AttributeError, match=r"KeyedStream.set_uid_hash is not available: steps have no hashes"
    ):
        stream.key_by(str).set_uid_hash("a")  # type: ignore[attr-defined] # what is refused
    with pytest.raises(AttributeError, match=r"^DataStream.nonsense is not available$"):
        stream.nonsense  # type: ignore[attr-defined] # noqa: B018 # what is refused


def test_backends_and_clients_say_why_too(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(
        AttributeError,
        match=r"set_predefined_options is not available: not implemented yet: RocksDB is configured by single options",
    ):
        EmbeddedRocksDBStateBackend().set_predefined_options(None)  # type: ignore[attr-defined] # what is refused
    with pytest.raises(
        AttributeError,
        match=r"get_savepoint_path is not available: the directory of savepoints is a separate setting",
    ):
        FileSystemCheckpointStorage("/data").get_savepoint_path()  # type: ignore[attr-defined] # what is refused
    env.from_collection([1]).print()
    client = env.execute_async("client")
    with pytest.raises(AttributeError, match=r"^JobClient.nonsense is not available$"):
        client.nonsense  # type: ignore[attr-defined] # noqa: B018 # what is refused
    client.get_job_execution_result().result(timeout=60)


def test_the_default_place_of_savepoints_is_a_setting(env: StreamExecutionEnvironment) -> None:
    assert env.get_default_savepoint_directory() is None
    assert env.set_default_savepoint_directory("/data/savepoints") is env
    assert env.get_default_savepoint_directory() == "/data/savepoints"


class Place(KeyedProcessFunction):
    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        self.place = (
            runtime_context.get_task_name_with_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
        )

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        ctx.timer_service().register_event_time_timer(7)
        yield self.place

    def on_timer(self, timestamp, ctx):  # type: ignore[no-untyped-def]
        yield timestamp, ctx.time_domain()


def test_a_function_knows_its_place_and_which_time_its_timer_follows(
    anywhere: StreamExecutionEnvironment,
) -> None:
    step = anywhere.set_max_parallelism(64).from_collection([1]).key_by(str).process(Place())
    step.set_parallelism(1).name("place")

    assert sorted(step.execute_and_collect(), key=repr) == [
        ("place (1/1)", 64),
        (7, TimeDomain.EVENT_TIME),
    ]


def test_a_step_is_described_in_plans(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).set_description("numbers as texts").print().set_description(
        "on the screen"
    )

    assert "numbers as texts" in env.get_execution_plan()
    assert "on the screen" in env.get_execution_plan()


def test_a_windowed_stream_tells_where_it_comes_from(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1], type_info=Types.LONG())
    windowed = stream.key_by(str).count_window(2)

    assert windowed.get_execution_environment() is env
    assert windowed.get_input_type() == Types.LONG()
    assert stream.get_execution_config().get_parallelism() == -1


def test_points_and_lengths_of_time_count_in_nanoseconds() -> None:
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert Instant.of_epoch_milli(-1).to_epoch_milli() == -1
    assert Duration.of_nanos(2_000_000) == Duration.of_millis(2)
    with pytest.raises(
        ConfigError, match=r"a duration of 5 ns is not supported; expected whole milliseconds"
    ):
        Duration.of_nanos(5)
