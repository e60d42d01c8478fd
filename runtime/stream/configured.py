"""Settings of the environment, under PyFlink's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.runtime.stream.checkpoint_config import CheckpointConfig, CheckpointingMode
from tidegate.runtime.stream.configuration import Configuration
from tidegate.runtime.stream.datastream import instance_of
from tidegate.runtime.stream.execution_config import ExecutionConfig
from tidegate.runtime.stream.legacy import deprecated
from tidegate.runtime.stream.restart_strategies import RestartStrategyConfiguration
from tidegate.runtime.stream.state_backends import StateBackend
from tidegate.runtime.unsupported_api import UnsupportedApi

__all__ = ["Configured"]


class Configured(UnsupportedApi):
    """Settings, and views of them.

    Example:
        >>> from tidegate.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.configure(Configuration.from_dict({"execution.checkpointing.interval": "5 s"}))
        >>> env.get_checkpoint_interval(), env.set_parallelism(4).get_parallelism()
        (5000, 4)
    """

    def __init__(self, settings: Mapping[str, Any] | Configuration | None) -> None:
        self._settings: dict[str, Any] = {}
        self._parameters: dict[str, str] = {}
        self._idle_settings: dict[str, bool] = {}
        self._checkpoint_config = CheckpointConfig(self._settings)
        if settings is not None:
            self.configure(settings)

    def configure(self, configuration: Mapping[str, Any] | Configuration) -> None:
        """Add settings, stronger than those from outside."""
        given = configuration.settings() if isinstance(configuration, Configuration) else configuration
        self._settings.update(given)

    def get_config(self) -> ExecutionConfig:
        """Settings under the names of PyFlink's `ExecutionConfig`."""
        return ExecutionConfig(self._settings, self._parameters, self._idle_settings)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Settings under the names of PyFlink's `CheckpointConfig`."""
        return self._checkpoint_config

    def get_parallelism(self) -> int:
        """Subtasks per operator, -1 if the executor decides."""
        return self.get_config().get_parallelism()

    def get_max_parallelism(self) -> int:
        """Key groups per operator, -1 if that follows from the parallelism."""
        return self.get_config().get_max_parallelism()

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between two checkpoints."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints overtake records on their way."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """What was set; it changes nothing."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """Deprecated: what happens after a failure."""
        deprecated("set_restart_strategy(...)", "the settings restart-strategy.*")
        strategy = instance_of(
            "set_restart_strategy", restart_strategy_configuration, RestartStrategyConfiguration
        )
        self._settings.update(strategy.settings())

    def set_state_backend(self, state_backend: StateBackend) -> None:
        """Deprecated: where working state lives."""
        deprecated("set_state_backend(...)", "the setting state.backend.type")
        self._settings.update(instance_of("set_state_backend", state_backend, StateBackend).settings())
