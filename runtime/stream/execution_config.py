"""Execution configuration, under the names of PyFlink's `ExecutionConfig`, and the runtime mode."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Protocol

from tidegate.errors import ConfigError
from tidegate.options import Layer, load
from tidegate.runtime.flink_conf import translated
from tidegate.runtime.options import JobOptions
from tidegate.runtime.stream.step import positive
from tidegate.runtime.unsupported_api import UnsupportedApi

__all__ = ["ExecutionConfig", "RuntimeExecutionMode"]


_WATERMARKS: Final = "pipeline.auto-watermark-interval"


class RuntimeExecutionMode(Enum):
    """How a program runs."""

    STREAMING = "streaming"
    BATCH = "batch"
    AUTOMATIC = "automatic"


class _Mapped(Protocol):
    def to_map(self) -> dict[str, str]: ...


class ExecutionConfig(UnsupportedApi):
    """A view of the environment it came from: what is set here is set there."""

    def __init__(
        self, settings: dict[str, Any], parameters: dict[str, str], idle_settings: dict[str, bool]
    ) -> None:
        self._settings = settings
        self._parameters = parameters
        self._idle_settings = idle_settings

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
        return int(self._settings.get("pipeline.max-parallelism", -1))

    def enable_object_reuse(self) -> ExecutionConfig:
        """Accepted and ignored: values stay apart where functions may change them."""
        return self._note("object reuse", True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """What holds anyway."""
        return self._note("object reuse", False)

    def is_object_reuse_enabled(self) -> bool:
        """What was set."""
        return self._idle_settings.get("object reuse", False)

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Accepted and ignored: functions travel with what they use."""
        return self._note("closure cleaner", True)

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """What holds anyway."""
        return self._note("closure cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        """What was set."""
        return self._idle_settings.get("closure cleaner", True)

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Let watermarks follow records this often; 0 lets only those strategies make them that look at each record.

        Raises:
            ConfigError: it is not a number of milliseconds.
        """
        if type(interval) is not int or interval < 0:
            raise ConfigError(
                f"auto watermark interval is {interval!r}; expected milliseconds, or 0 to turn it off"
            )
        self._settings[_WATERMARKS] = interval
        return self

    def get_auto_watermark_interval(self) -> int:
        """What was set; Flink's 200 ms unless it was, though a watermark follows each batch of a source then."""
        said = load(JobOptions, translated(Layer("program", self._settings))).watermark_interval_ms
        return 200 if said is None else said

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """What holds anyway."""
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """They are: a step without a uid gets one from its place in the program."""
        return True

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Accepted and ignored: how snapshots are written is the backend's."""
        return self._note("snapshot compression", use_snapshot_compression)

    def is_use_snapshot_compression(self) -> bool:
        """What was set."""
        return self._idle_settings.get("snapshot compression", False)

    def set_global_job_parameters(
        self, global_job_parameters_dict: Mapping[str, str] | _Mapped
    ) -> ExecutionConfig:
        """Give every function parameters, which it reads by `get_job_parameter(name)`.

        Raises:
            ConfigError: a name or value is not a str.
        """
        given: dict[Any, Any] = dict(
            global_job_parameters_dict
            if isinstance(global_job_parameters_dict, Mapping)
            else global_job_parameters_dict.to_map()
        )
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ConfigError(f"job parameter {name!r} is {value!r}; expected a str")
        self._parameters.clear()
        self._parameters.update(given)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """What was given."""
        return dict(self._parameters)

    def _note(self, what: str, wanted: bool) -> ExecutionConfig:
        """Store a setting without effect, so that its getter returns it."""
        self._idle_settings[what] = wanted
        return self
