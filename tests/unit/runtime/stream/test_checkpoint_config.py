"""How checkpoints are taken: what becomes a setting, what is accepted, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.common import Duration
from tidegate.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    StreamExecutionEnvironment,
)
from tidegate.errors import ConfigError


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
def config(settings: dict[str, Any]) -> CheckpointConfig:
    return CheckpointConfig(settings)


def test_what_is_chosen_becomes_a_setting(config: CheckpointConfig, settings: dict[str, Any]) -> None:
    config.set_checkpoint_interval(500).set_checkpoint_timeout(2_000)

    assert settings == {"execution.checkpointing.interval": 500, "execution.checkpointing.timeout": 2_000}
    assert (config.get_checkpoint_interval(), config.get_checkpoint_timeout()) == (500, 2_000)


def test_how_barriers_are_met_is_a_setting(config: CheckpointConfig, settings: dict[str, Any]) -> None:
    config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE).set_min_pause_between_checkpoints(500)
    config.enable_unaligned_checkpoints().set_alignment_timeout(Duration.of_seconds(2))

    assert settings == {
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.min-pause": 500,
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.aligned-checkpoint-timeout": 2_000,
    }
    assert config.get_min_pause_between_checkpoints() == 500
    assert config.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == config.get_alignment_timeout() == Duration.of_seconds(2)
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_how_many_checkpoints_there_may_be_at_once_is_remembered_by_the_environment() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_checkpoint_config().get_max_concurrent_checkpoints() == 1

    env.get_checkpoint_config().set_max_concurrent_checkpoints(4)
    assert env.get_checkpoint_config().get_max_concurrent_checkpoints() == 4


@pytest.mark.parametrize("most", [1, 4])
def test_how_many_checkpoints_there_may_be_at_once_is_the_setting_of_the_same_meaning(
    config: CheckpointConfig, settings: dict[str, Any], most: int
) -> None:
    config.set_max_concurrent_checkpoints(most)

    assert settings == {"execution.checkpointing.max-concurrent-checkpoints": most}
    assert CheckpointConfig(dict(settings)).get_max_concurrent_checkpoints() == most
    with pytest.raises(ConfigError, match=r"max-concurrent-checkpoints' is out of range; got 0; expected at"):
        CheckpointConfig(dict.fromkeys(settings, 0)).get_max_concurrent_checkpoints()


def test_what_holds_anyway_is_accepted_and_told(config: CheckpointConfig, settings: dict[str, Any]) -> None:
    config.set_fail_on_checkpointing_errors(False)
    config.set_force_unaligned_checkpoints(False)

    assert settings == {}
    assert config.is_checkpointing_enabled()
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert (config.get_min_pause_between_checkpoints(), config.get_max_concurrent_checkpoints()) == (0, 1)
    assert config.get_tolerable_checkpoint_failure_number() > 1_000
    assert not config.is_fail_on_checkpointing_errors()
    assert not config.is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == config.get_aligned_checkpoint_timeout() == Duration.of_millis(0)
    assert CheckpointConfig({"execution.checkpointing.mode": "NONE"}).is_checkpointing_enabled() is False
    assert config.is_externalized_checkpoints_enabled()
    assert config.get_externalized_checkpoint_retention().name == "RETAIN_ON_CANCELLATION"


def test_forcing_unaligned_checkpoints_warns_and_is_remembered(
    config: CheckpointConfig, settings: dict[str, Any]
) -> None:
    with pytest.warns(UserWarning, match="set_force_unaligned_checkpoints has no effect: .* iterations"):
        config.set_force_unaligned_checkpoints()

    assert (config.is_force_unaligned_checkpoints(), settings) == (True, {})


@pytest.mark.parametrize("retention", ["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"])
def test_what_becomes_of_checkpoints_at_a_cancellation_is_a_setting(
    config: CheckpointConfig, settings: dict[str, Any], retention: str
) -> None:
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention[retention])

    assert settings == {"execution.checkpointing.externalized-checkpoint-retention": retention}
    assert config.get_externalized_checkpoint_retention().name == retention


def test_how_many_failed_checkpoints_are_tolerated_is_a_setting(
    config: CheckpointConfig, settings: dict[str, Any]
) -> None:
    config.set_tolerable_checkpoint_failure_number(2)
    assert settings == {"execution.checkpointing.tolerable-failed-checkpoints": 2}
    assert config.get_tolerable_checkpoint_failure_number() == 2
    assert not config.is_fail_on_checkpointing_errors()

    assert config.set_fail_on_checkpointing_errors(True).is_fail_on_checkpointing_errors()
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert not config.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()
    assert settings == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda it: (
                it.enable_unaligned_checkpoints()
                .set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
                .get_checkpointing_mode()
            ),
            r"unaligned checkpoints need execution.checkpointing.mode EXACTLY_ONCE; got AT_LEAST_ONCE; leave",
        ),
        (
            lambda it: it.set_min_pause_between_checkpoints(-1).get_min_pause_between_checkpoints(),
            r"option 'execution.checkpointing.min-pause' is out of range; got -1; expected at least 0",
        ),
        (
            lambda it: it.set_externalized_checkpoint_retention(
                ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
            ),
            r"cannot be kept as NO_EXTERNALIZED_CHECKPOINTS, because all of them are on storage; use RETAIN",
        ),
        (lambda it: it.set_checkpoint_interval(0), r"checkpoint interval is 0; expected an integer"),
        (
            lambda it: it.set_checkpointing_mode("EXACTLY_ONCE"),
            r"checkpointing mode takes a CheckpointingMode",
        ),
    ],
    ids=["unaligned at least once", "pause", "retention", "interval", "no mode"],
)
def test_what_is_not_there_is_refused(
    config: CheckpointConfig, call: Callable[[CheckpointConfig], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        call(config)


def test_where_checkpoints_go_can_be_said_in_the_old_way(
    config: CheckpointConfig, settings: dict[str, Any]
) -> None:
    with pytest.warns(
        DeprecationWarning, match=r"set_checkpoint_storage_dir\(...\) is deprecated; use the setting"
    ):
        config.set_checkpoint_storage_dir("file:///data/a")
    assert settings == {"state.checkpoints.dir": "/data/a"}

    storage = FileSystemCheckpointStorage("/data/b", file_state_size_threshold=1_024)
    with pytest.warns(DeprecationWarning, match=r"set_checkpoint_storage\(...\) is deprecated"):
        config.set_checkpoint_storage(storage)
    assert settings == {"state.checkpoints.dir": "/data/b", "state.backend.fs.memory-threshold": 1_024}
    assert (storage.get_checkpoint_path(), storage.get_min_file_size_threshold()) == ("/data/b", 1_024)
    assert storage.get_write_buffer_size() == -1


def test_the_storage_of_a_job_manager_is_a_directory_like_any_other() -> None:
    storage = JobManagerCheckpointStorage("file:///data/a", max_state_size=5)

    assert (storage.get_checkpoint_path(), storage.get_max_state_size()) == ("/data/a", 5)
    assert storage.settings() == {"state.checkpoints.dir": "/data/a", "state.backend.heap.max-state": 5}
    assert JobManagerCheckpointStorage().settings() == {}


def test_a_store_on_disk_says_whether_its_checkpoints_are_incremental() -> None:
    assert EmbeddedRocksDBStateBackend().is_incremental_checkpoints_enabled()
    full = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False)
    assert not full.is_incremental_checkpoints_enabled()
    assert full.settings() == {"state.backend.type": "rocksdb", "state.backend.incremental": False}


def test_the_write_buffer_of_a_storage_is_a_setting() -> None:
    storage = FileSystemCheckpointStorage("/data/a", write_buffer_size=4_096)
    assert storage.get_write_buffer_size() == 4_096
    assert storage.settings() == {
        "state.checkpoints.dir": "/data/a",
        "state.backend.fs.write-buffer-size": 4_096,
    }


def test_a_storage_on_another_system_keeps_its_url() -> None:
    storage = FileSystemCheckpointStorage("s3://bucket/a?region=eu-west-1")
    assert storage.settings() == {"state.checkpoints.dir": "s3://bucket/a?region=eu-west-1"}


def test_an_environment_is_told_the_mode() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()

    assert env.enable_checkpointing(250, CheckpointingMode.AT_LEAST_ONCE).get_checkpoint_interval() == 250
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_a_program_without_checkpoints_has_no_interval() -> None:
    with pytest.raises(
        ConfigError, match=r"mode NONE takes no periodic checkpoints; got execution.checkpointing.inter"
    ):
        CheckpointConfig({"execution.checkpointing.mode": "NONE"}).set_checkpoint_interval(
            9
        ).get_checkpoint_interval()
