"""Settings of a program under the names of PyFlink's `ExecutionConfig`, and which way of running there is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from tidegate.errors import ConfigError
from tidegate.runtime.refusing import Refusing
from tidegate.runtime.stream.datastream import positive

__all__ = ["ExecutionConfig", "RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program runs."""

    STREAMING = "streaming"
    BATCH = "batch"
    AUTOMATIC = "automatic"


class _Mapped(Protocol):
    def to_map(self) -> dict[str, str]: ...


class ExecutionConfig(Refusing):
    """A view of the environment it came from: what is set here is set there."""

    def __init__(self, settings: dict[str, Any], parameters: dict[str, str]) -> None:
        self._settings = settings
        self._parameters = parameters

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Subtasks per operator, unless an operator says otherwise."""
        self._settings["parallelism.default"] = positive("parallelism", parallelism)
        return self

    def get_parallelism(self) -> int:
        """What was set; -1 if the executor decides."""
        return int(self._settings.get("parallelism.default", -1))

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Key groups per operator, unless an operator says otherwise."""
        self._settings["pipeline.max-parallelism"] = positive("max parallelism", max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """What was set; -1 if it follows from the parallelism."""
        found: int = self._settings.get("pipeline.max-parallelism", -1)
        return found

    def enable_object_reuse(self) -> ExecutionConfig:
        """Accepted and ignored: values stay apart where functions may change them."""
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """What holds anyway."""
        return self

    def is_object_reuse_enabled(self) -> bool:
        """No."""
        return False

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Accepted and ignored: functions travel with what they use."""
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """What holds anyway."""
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """No."""
        return False

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Accepted and ignored: a watermark follows each batch of a source."""
        return self

    def get_auto_watermark_interval(self) -> int:
        """None: a watermark follows each batch of a source."""
        return 0

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """What holds anyway."""
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """They are: a step without a uid gets one from its place in the program."""
        return True

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Accepted and ignored: how snapshots are written is the backend's."""
        return self

    def is_use_snapshot_compression(self) -> bool:
        """No."""
        return False

    def set_global_job_parameters(
        self, global_job_parameters_dict: Mapping[str, str] | _Mapped
    ) -> ExecutionConfig:
        """Give every function parameters, which it reads by `get_job_parameter(name)`.

        Raises:
            ConfigError: a name or value is no text.
        """
        given: dict[Any, Any] = dict(
            global_job_parameters_dict
            if isinstance(global_job_parameters_dict, Mapping)
            else global_job_parameters_dict.to_map()
        )
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ConfigError(f"job parameter {name!r} is {value!r}; expected texts")
        self._parameters.clear()
        self._parameters.update(given)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """What was given."""
        return dict(self._parameters)
