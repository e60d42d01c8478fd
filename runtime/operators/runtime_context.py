"""The base of runtime contexts: parameters, accumulators, metrics and registered files."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.accumulators import Accumulator
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.lifecycle import ManagedFunctions
from tidegate.runtime.program_resources import CachedFile

__all__ = ["BaseRuntimeContext", "DistributedCache"]


class DistributedCache:
    """Files that the program registered, copied to this worker on first use."""

    def __init__(self, files: Mapping[str, CachedFile], directory: Path) -> None:
        self._files = files
        self._directory = directory

    def get_file(self, name: str) -> str:
        """The path of this worker's copy.

        Raises:
            ConfigError: nothing was registered under the name, or it cannot be copied.
        """
        file = self._files.get(name)
        if file is None:
            known = ", ".join(sorted(self._files)) or "none"
            raise ConfigError(
                f"no file is registered as {name!r}; registered are {known}; use env.register_cached_file(path, name)"
            )
        copy = self._directory / "cached" / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                _copy(file, copy)
            except OSError as error:
                raise ConfigError(
                    f"file {file.path} registered as {name!r} cannot be copied: {error}"
                ) from error
            if file.executable:
                copy.chmod(copy.stat().st_mode | stat.S_IXUSR)
        return str(copy)


class BaseRuntimeContext:
    """The part of a runtime context that is the same for functions of steps and of connectors."""

    functions: ManagedFunctions

    def __init__(self, uid: OperatorUid, env: ChainEnvironment) -> None:
        self.env = env
        self._uid = uid

    def manage(
        self, function: object, lock: AbstractContextManager[object] | None = None
    ) -> Callable[[CheckpointId], None]:
        """Initialize the state of a function that a connector runs; see `tidegate.twophase.spi.ProgramContext`."""
        return self.functions.manage(function, lock)

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A global parameter of the program."""
        return self.env.resources.parameters.get(key, default_value)

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Register an accumulator, which is in the job's result; accumulators of all subtasks with the name are merged.

        Raises:
            ConfigError: it is not an accumulator.
        """
        if not isinstance(accumulator, Accumulator):
            raise ConfigError(
                f"add_accumulator takes an Accumulator such as IntCounter(); got {type(accumulator).__name__}"
            )
        self.env.measures.add(self.env.subtask, name, accumulator)

    def get_metrics_group(self) -> MetricGroup:
        """Metrics of this function in this subtask."""
        prefix = f"{self._uid}.{self.env.subtask.index}"
        return MetricGroup(prefix, self.env.measures.metrics, self.env.clock.monotonic)

    def get_distributed_cache(self) -> DistributedCache:
        """Files that the program registered."""
        return DistributedCache(self.env.resources.files, self.env.state.directory)


def _copy(file: CachedFile, target: Path) -> None:
    # Another subtask must never see half a copy; subtasks of one worker copy one at a time, so one name is enough.
    partial = target.with_name(f"{target.name}.partial")
    file.copy_to(partial)
    partial.rename(target)
