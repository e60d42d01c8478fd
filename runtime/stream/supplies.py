"""Program configuration besides steps: settings, parameters, files and modules for functions, the clock."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.runtime.program_resources import CachedFile, ProgramResources
from tidegate.runtime.stream.configuration import Configuration
from tidegate.runtime.stream.configured import Configured
from tidegate.runtime.stream.datastream import instance_of
from tidegate.runtime.stream.execution_config import RuntimeExecutionMode
from tidegate.runtime.stream.slot_sharing import SlotSharingGroup, SlotSharingGroups

__all__ = ["Supplies"]


class Supplies(Configured):
    """The part of the environment that concerns no stream."""

    def __init__(self, settings: Mapping[str, Any] | Configuration | None) -> None:
        super().__init__(settings)
        self._files: dict[str, CachedFile] = {}
        self._clock: Clock | None = None
        self.slot_sharing_groups = SlotSharingGroups()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> None:
        """Whether the program is a stream or a batch job; the same as the setting `execution.runtime-mode`."""
        mode = instance_of("set_runtime_mode", execution_mode, RuntimeExecutionMode)
        self._settings["execution.runtime-mode"] = mode.name

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Where savepoints of running jobs go unless told otherwise; the same as the setting `state.savepoints.dir`."""
        self._settings["state.savepoints.dir"] = directory
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory of savepoints, if the program has set one."""
        directory: str | None = self._settings.get("state.savepoints.dir")
        return directory

    def add_jars(self, *jars_path: str) -> None:
        """Accepted without effect: connectors and formats are Python packages."""
        _say_not_needed("jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accepted without effect, because there is no class path."""
        _say_not_needed("class paths", classpaths)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Say what a group's slots need, for steps that are put into it by its name.

        Raises:
            ConfigError: the group has other resources elsewhere in the program.
        """
        group = instance_of("register_slot_sharing_group", slot_sharing_group, SlotSharingGroup)
        self.slot_sharing_groups.named(group)
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Give every worker a copy of a file or directory, found by `get_distributed_cache().get_file(name)`.

        Raises:
            ConfigError: the file does not exist on this machine.
        """
        url = urlsplit(file_path)
        path = Path(url.path if url.scheme == "file" else file_path)
        if url.scheme not in ("", "file"):
            raise ConfigError(
                f"cached file {file_path!r} is on {url.scheme}; expected a local file; copy it to this machine first"
            )
        if not path.exists():
            raise ConfigError(f"cached file {file_path!r} does not exist")
        if not name or Path(name).name != name:
            raise ConfigError(
                f"name {name!r} of a cached file is not a plain file name; give a name without slashes"
            )
        self._files[name] = CachedFile(str(path.resolve()), executable)

    def use_clock(self, clock: Clock) -> Self:
        """Let processing time be what `clock` says, in every worker, instead of the machine's time: for tests.

        Each worker has a copy of it, so one that tests move has to read its time from a place they all see. On Spark
        the driver looks at it once for each epoch.

        Example:
            >>> from tidegate.clock import ManualClock
            >>> from tidegate.datastream import ProcessFunction, StreamExecutionEnvironment
            >>> class Now(ProcessFunction):
            ...     def process_element(self, value, ctx):
            ...         yield ctx.timer_service().current_processing_time()
            >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
            >>> list(env.use_clock(ManualClock(1_000)).from_collection(["a"]).process(Now()).execute_and_collect())
            [1000]
        """
        self._clock = clock
        return self

    def add_python_file(self, file_path: str) -> None:
        """Make a module, package directory or zip file importable here and in the workers.

        Raises:
            ConfigError: the file does not exist.
        """
        path = Path(file_path).resolve()
        if not path.exists():
            raise ConfigError(f"python file {file_path!r} does not exist")
        entry = str(path.parent if path.suffix == ".py" else path)
        if entry not in sys.path:
            sys.path.append(entry)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Not available.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "add_python_archive is not available, because workers use the program's interpreter; unpack "
            f"{archive_path!r} and use register_cached_file(directory, name) or add_python_file(directory)"
        )

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Not available.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "set_python_requirements is not available, because workers use the program's interpreter; run "
            f"`pip install -r {requirements_file_path}` before it starts"
        )

    def set_python_executable(self, python_exec: str) -> None:
        """Only the interpreter that runs the program.

        Raises:
            ConfigError: another one is asked for.
        """
        if Path(python_exec).resolve() != Path(sys.executable).resolve():
            raise ConfigError(
                f"workers use the program's interpreter, {sys.executable}; start the program with {python_exec} instead"
            )

    def _resources(self) -> ProgramResources:
        return ProgramResources(dict(self._parameters), dict(self._files), self._clock)


def _say_not_needed(what: str, paths: tuple[str, ...]) -> None:
    warnings.warn(
        f"{what} have no effect: {', '.join(paths)} is ignored; connectors are installed as extras, such as pip install "
        "'tidegate[kafka,formats]'",
        UserWarning,
        stacklevel=3,
    )
