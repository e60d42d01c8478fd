"""Execution environment: sources, settings, `execute`."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from collections.abc import Generator, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, overload
from urllib.parse import urlsplit

from tidegate import registry
from tidegate.clock import Clock
from tidegate.connectors.spi import Source
from tidegate.errors import ConfigError
from tidegate.options import Layer, load
from tidegate.runtime.client import JobClient
from tidegate.runtime.exit_codes import exit_with_codes
from tidegate.runtime.explain import explained, loops, picture, text
from tidegate.runtime.flink_conf import translated
from tidegate.runtime.graph.plan import plan_json
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.launch import Launch, run_program, start_program
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.operators.rows import shaper
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions, client_layers
from tidegate.runtime.program_resources import CachedFile, ProgramResources
from tidegate.runtime.result import JobResult
from tidegate.runtime.stream.checkpoint_config import CheckpointingMode
from tidegate.runtime.stream.configuration import Configuration
from tidegate.runtime.stream.configured import Configured
from tidegate.runtime.stream.datastream import DataStream, instance_of
from tidegate.runtime.stream.execution_config import RuntimeExecutionMode
from tidegate.runtime.stream.generics import T
from tidegate.runtime.stream.slot_sharing import SlotSharingGroup, SlotSharingGroups
from tidegate.runtime.stream.state import declared_states
from tidegate.runtime.stream.step import buffer_timeout, positive
from tidegate.runtime.stream.time_characteristic import TimeCharacteristic
from tidegate.runtime.stream.unexecuted import note_executed, note_step
from tidegate.runtime.stream.watermarks import WatermarkStrategy, ingestion_time
from tidegate.runtime.working_directory import OwnedDirectory
from tidegate.types import TypeInformation, Types

__all__ = ["StreamExecutionEnvironment"]


class StreamExecutionEnvironment(Configured):
    """Holds the steps of a program until `execute` runs them.

    Example:
        >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
        >>> sorted(env.from_collection(["a", "b"]).map(str.upper).execute_and_collect())
        ['A', 'B']
    """

    def __init__(self, configuration: Mapping[str, Any] | Configuration | None = None) -> None:
        exit_with_codes()
        super().__init__(configuration)
        self._sinks: list[Transformation] = []
        self._steps: list[Transformation] = []
        self._time = TimeCharacteristic.ProcessingTime
        self._files: dict[str, CachedFile] = {}
        self._clock: Clock | None = None
        self.slot_sharing_groups = SlotSharingGroups()

    @classmethod
    def get_execution_environment(
        cls, configuration: Mapping[str, Any] | Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """An environment; `configuration` holds settings by key, stronger than those from outside."""
        return cls(configuration)

    @classmethod
    def on_spark(
        cls, master: str, configuration: Mapping[str, Any] | None = None
    ) -> StreamExecutionEnvironment:
        """An environment whose programs run on Spark, in epochs; `master` is a Spark master URL."""
        return cls({**(configuration or {}), "execution.target": master})

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Subtasks per operator, unless an operator says otherwise."""
        self._settings["parallelism.default"] = positive("parallelism", parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Key groups per operator, unless an operator says otherwise."""
        self._settings["pipeline.max-parallelism"] = positive("max parallelism", max_parallelism)
        return self

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Let no two steps share a thread."""
        self._settings["pipeline.operator-chaining.enabled"] = False
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether steps may share a thread."""
        return self._launch((), None).options.operator_chaining

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Let records wait this long for others before an exchange; 0 sends at once, -1 only full buffers."""
        self._settings["execution.buffer-timeout"] = buffer_timeout(timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """How long records wait for others before an exchange, in milliseconds."""
        return self._launch((), None).options.buffer_timeout_ms

    def enable_checkpointing(
        self,
        interval: int,
        mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE,
        *,
        force: bool = False,
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint this often; `force` does so in iterations, too, whose records on their way are lost.

        Raises:
            ConfigError: the mode or the interval is none.
        """
        self.get_checkpoint_config().set_checkpointing_mode(mode)
        self._settings["execution.checkpointing.interval"] = positive("checkpoint interval", interval)
        if force:
            self._settings["execution.checkpointing.force"] = True
        return self

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

    @overload
    def from_collection(self, collection: Iterable[T], type_info: None = None) -> DataStream[T]: ...

    @overload
    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation) -> DataStream: ...

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """A bounded stream of the given records, in their order: one subtask reads them."""
        return self.from_parallel_collection(collection, type_info).force_non_parallel()

    def from_parallel_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """A bounded stream of the given records; each subtask reads a contiguous part of them."""
        source = registry.load("tidegate.connectors", "collection.source")
        shape = shaper(type_info)
        made = source(collection if shape is None else map(shape, collection), type_info)
        stream = self.from_source(made, source_name="collection", type_info=type_info)
        stream._transformation.label = "Collection Source"
        return stream

    def from_source(
        self,
        source: Source[Any],
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what `source` reads, with times as the strategy says."""
        if not isinstance(source, Source):
            raise ConfigError(f"from_source takes a Source; got {type(source).__name__}")
        step = Transformation(SOURCE, source_name, source, (), type_info or source.produced_type)
        if watermark_strategy is not None:
            instance_of("from_source", watermark_strategy, WatermarkStrategy)
            watermark_strategy.generator()  # which refuses one that cannot work, here rather than in a subtask
            step.watermarks = None if watermark_strategy.does_nothing else watermark_strategy
        elif self._time is TimeCharacteristic.IngestionTime:
            step.watermarks = ingestion_time()
        return DataStream(self, step)

    def create_input(self, input_format: Source[Any], type_info: TypeInformation | None = None) -> DataStream:
        """A stream of what an input format reads, such as PyFlink's `AvroInputFormat`, which is a source here."""
        return self.from_source(input_format, source_name="Custom File Source", type_info=type_info)

    def add_source(
        self,
        source_func: Any,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a `SourceFunction` emits; one subtask runs it unless it is a `ParallelSourceFunction`.

        A `Source` is read as by `from_source`.
        """
        if isinstance(source_func, Source):
            return self.from_source(source_func, source_name=source_name, type_info=type_info)
        if declared := declared_states(source_func):
            raise ConfigError(
                f"add_source: {type(source_func).__name__} declares keyed state {', '.join(declared)}; a source has no key; "
                "expected operator state; implement CheckpointedFunction"
            )
        source = registry.load("tidegate.connectors", "functions.source")(source_func)
        stream = self.from_source(source, source_name=source_name, type_info=type_info)
        return stream if source.parallel else stream.set_parallelism(1)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """A bounded stream of the lines of a file, or of all files of a directory."""
        source = registry.load("tidegate.connectors", "files.source")(file_path, charset_name)
        return self.from_source(source, source_name="text file", type_info=Types.STRING())

    def set_stream_time_characteristic(
        self, characteristic: TimeCharacteristic
    ) -> StreamExecutionEnvironment:
        """What shortcuts such as `time_window` mean; under ingestion time, sources made from now on stamp records.

        Event time needs no switch: records have it as soon as a watermark strategy gives it to them.
        """
        self._time = instance_of("set_stream_time_characteristic", characteristic, TimeCharacteristic)
        return self

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """What was set; processing time unless something was."""
        return self._time

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retries: int = 0
    ) -> DataStream[str]:
        """Lines that a TCP server sends, read by one subtask; after a failure those since the last checkpoint are lost."""
        source = registry.load("tidegate.connectors", "socket.source")(hostname, port, delimiter, max_retries)
        stream = self.from_source(source, source_name="socket", type_info=Types.STRING())
        stream.set_parallelism(1)
        stream._transformation.label = "Socket Stream"
        return stream

    def close(self) -> None:
        """Nothing to do: an environment holds nothing that lives on."""

    def add_sink(self, step: Transformation) -> None:
        """Make a step part of the program; called by the methods that end a stream."""
        self._sinks.append(step)
        note_step(self)

    def add_step(self, step: Transformation) -> None:
        """Remember a step, which runs if the program has no sinks at all; called by all that add one."""
        if step.kind.role not in _VIEWS:
            self._steps.append(step)

    def execute(self, job_name: str | None = None) -> JobResult:
        """Run the program to its end, or until it is stopped; it resumes from the newest checkpoint of an unfinished run.

        What runs is all that leads to a sink. A program without sinks runs for what its steps do and keep in state.

        Raises:
            ConfigError: the program or a setting is wrong, or the pipeline is already running.
            JobFailedError: it failed too often.
        """
        return run_program(self._launch(self._taken(), job_name))

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return; the client shows its status, stops or cancels it.

        Raises:
            ConfigError: a setting is wrong.
        """
        return start_program(self._launch(self._taken(), job_name))

    def get_execution_plan(self) -> str:
        """The program so far as JSON, for Flink's plan visualizer; nothing runs."""
        note_executed(self)
        return plan_json(explained(self._launch(self._program, None)).steps)

    def explain(self, *, svg: str | os.PathLike[str] | None = None, code: bool = False) -> str:
        """The plan of the program as text; nothing runs. With `svg` also as a diagram in that file, with `code` its loops.

        Example:
            >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
            >>> _ = env.set_parallelism(1).from_collection([1]).map(str).print()
            >>> print(env.explain().splitlines()[2])
            chain 1: 1 subtask, slots 'default'
        """
        note_executed(self)
        program = explained(self._launch(self._program, None))
        if svg is not None:
            Path(svg).write_text(picture(program), encoding="utf-8")
        return text(program) + (f"\n{loops(program)}" if code else "")

    def collect(
        self, stream: DataStream, job_name: str | None = None, limit: int | None = None
    ) -> Generator[Any]:
        """Run the program and iterate over the records of one of its streams; it is stopped once `limit` are there."""
        sink, read = (
            registry.load("tidegate.connectors", "collection.sink"),
            registry.load("tidegate.connectors", "collection.read"),
        )
        with OwnedDirectory("collect") as directory:
            results = directory / "results"
            results.mkdir()

            def enough() -> bool:
                return limit is not None and len(list(islice(read(str(results)), limit))) == limit

            stream.sink_to(sink(str(results))).name("collect").force_non_parallel()
            launch = self._launch(self._taken(), job_name, root=f"{directory}/state")
            result = run_program(launch, enough if limit is not None else None)
            if result.state != "finished" and not enough():
                warnings.warn(
                    f"job {result.name!r} was {result.state} before its input ended; the collected results are not complete",
                    RuntimeWarning,
                    stacklevel=3,
                )
            yield from islice(read(str(results)), limit)

    @property
    def _program(self) -> tuple[Transformation, ...]:
        return tuple(self._sinks or self._steps)

    def _taken(self) -> tuple[Transformation, ...]:
        """The program so far; what is written from now on is another one."""
        program, self._sinks, self._steps = self._program, [], []
        note_executed(self)
        return program

    def _launch(
        self, steps: tuple[Transformation, ...], job_name: str | None, root: str | None = None
    ) -> Launch:
        layers = (Layer("program", self._settings), *client_layers(os.environ, Path.cwd()))
        options = load(JobOptions, *map(translated, layers)).with_complete_urls()
        resources = ProgramResources(dict(self._parameters), dict(self._files), self._clock)
        options = dataclasses.replace(options, resources=resources)
        return Launch(steps, job_name, options, script=_script(), root=root)


_VIEWS: Final = (Role.SOURCE, Role.UNION, Role.SIDE_OUTPUT, Role.ITERATION)
"""Steps that need a following step to have an effect."""


def _script() -> Path | None:
    """The program's file; a notebook or an interactive session has none."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).resolve() if file and Path(file).exists() and not hasattr(sys, "ps1") else None


def _say_not_needed(what: str, paths: tuple[str, ...]) -> None:
    warnings.warn(
        f"{what} have no effect: {', '.join(paths)} is ignored; connectors are installed as extras, such as pip install "
        "'tidegate[kafka,formats]'",
        UserWarning,
        stacklevel=3,
    )
