"""Launcher: resolves a program, opens its storage, selects the executor, handles signals."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import xxhash

from tidegate.backends.spi import Buffered, CheckpointStorage
from tidegate.backends.storage import open_storage
from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.errors import ConfigError, FencedError
from tidegate.ids import PipelineId
from tidegate.runtime.client import Executor, JobClient
from tidegate.runtime.component_settings import apply_settings, unused_settings
from tidegate.runtime.control.reachable import reachable
from tidegate.runtime.embedded.jobmanager import JobManager
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.job import Program, Startup
from tidegate.runtime.observe.events import EventFile
from tidegate.runtime.options import SUBMITTED, JobOptions, default_root
from tidegate.runtime.report import Reporter
from tidegate.runtime.result import JobResult
from tidegate.runtime.spark.master import MASTERS, is_master
from tidegate.runtime.status import RunStatus
from tidegate.runtime.working_directory import OwnedDirectory, sweep, temporary_roots

__all__ = [
    "Launch",
    "checkpoint_root",
    "default_parallelism",
    "instead_of_running",
    "job_name",
    "program_of",
    "run_program",
    "start_program",
]

_instead: Callable[[Launch], NoReturn] | None = None

_LONGEST_NAME = 80
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Launch:
    """A program with its settings; `script` and `root` give its default name and its checkpoint directory."""

    steps: tuple[Transformation, ...]
    job_name: str | None
    options: JobOptions
    script: Path | None
    root: str | None = None


def run_program(launch: Launch, enough: Callable[[], bool] | None = None) -> JobResult:
    """Run a program to its end, or stop it when `enough` returns true."""
    if _instead is not None:
        return _instead(launch)
    with _prepared(launch) as (client, executor, startup):
        if enough is not None:
            threading.Thread(
                target=_stop_at, args=(client, enough), daemon=True, name="tidegate-enough"
            ).start()
        signals = partial(_stopping_on_signals, executor.stop, startup)
        return client.run_to_end(lambda: _in_turn(executor, startup, signals))


def start_program(launch: Launch) -> JobClient:
    """Run a program in a background thread of this process, which must not exit before the job ends."""
    if _instead is not None:
        return _instead(launch)
    stack = contextlib.ExitStack()
    client, executor, startup = stack.enter_context(_prepared(launch))

    def run() -> None:
        # The client holds the result or the error.
        with stack, contextlib.suppress(BaseException):
            client.run_to_end(lambda: _in_turn(executor, startup, contextlib.nullcontext))

    threading.Thread(target=run, daemon=True, name="tidegate-job").start()
    return client


def _stop_at(client: JobClient, enough: Callable[[], bool]) -> None:
    ended = threading.Event()
    client.gone().add_done_callback(lambda _: ended.set())
    while not ended.wait(_LOOK_S):
        if enough():
            client.stop()
            return


def _in_turn(
    executor: Executor, startup: Startup, running: Callable[[], AbstractContextManager[None]]
) -> JobResult:
    """Run a program as soon as this process owns the pipeline; SIGTERM ends a standby."""
    while True:
        try:
            with _terminated_by_sigterm():
                ended = startup.stand_by() if startup.program.options.standby else None
        except _Terminated:
            startup.say("SIGTERM: this standby exits; the active run continues")
            return JobResult.of_standby(startup)
        if ended is not None:
            return JobResult.of_active_run(startup, ended)
        try:
            with running():
                return executor.run()
        except FencedError:
            if not startup.program.options.standby or startup.pipeline.acquired:
                raise  # otherwise another standby acquired the pipeline first


@contextlib.contextmanager
def _prepared(launch: Launch) -> Iterator[tuple[JobClient, Executor, Startup]]:
    options = launch.options
    connectors = apply_settings(launch.steps, options)
    sweep((*temporary_roots(), *options.local_dirs))
    with checkpoint_root(launch) as root, contextlib.ExitStack() as open_things:
        program = program_of(launch)
        for line in unused_settings(options, root, connectors):
            warnings.warn(line, RuntimeWarning, stacklevel=4)
        reporter = Reporter(options.progress, program.name, sys.stderr, SYSTEM_CLOCK)
        startup = Startup(program, _storage(root, options), SYSTEM_CLOCK, reporter.say)
        whose = {"job": program.name, "pipeline": program.pipeline, "run": startup.run}
        log = None
        if options.event_log is not None:
            log = open_things.enter_context(EventFile(options.event_log, whose))
        status = RunStatus(SYSTEM_CLOCK, log)

        def observe(status: RunStatus) -> None:
            status.fold()
            reporter.show(status)

        executor = _executor(startup, status, observe)
        client = JobClient(startup.run, executor, lambda: status.state, options.savepoints)
        if launch.root is None:
            reporter.say(f"job {startup.run}, pipeline {program.pipeline!r}, checkpoints in {root}")
            open_things.enter_context(reachable(startup, client, status, root))
        yield client, executor, startup


@contextlib.contextmanager
def instead_of_running(handler: Callable[[Launch], NoReturn]) -> Iterator[None]:
    """Pass programs of this process to `handler` instead of running them; the handler must not return."""
    global _instead
    before, _instead = _instead, handler
    try:
        yield
    finally:
        _instead = before


def program_of(launch: Launch) -> Program:
    """The program of a launch, with its pipeline id."""
    options = launch.options
    apply_settings(launch.steps, options)
    return Program(
        job_name(launch),
        _pipeline_id(launch),
        launch.steps,
        options,
        default_parallelism(options),
        _has_lasting_id(launch),
    )


def job_name(launch: Launch) -> str:
    """The name of a job."""
    return launch.job_name or (launch.script.stem if launch.script else "job")


def default_parallelism(options: JobOptions) -> int:
    """The parallelism of steps that set none."""
    return options.parallelism or len(os.sched_getaffinity(0))


def _executor(startup: Startup, status: RunStatus, observe: Callable[[RunStatus], None]) -> Executor:
    target = startup.program.options.target
    if target in ("embedded", "inline"):
        return JobManager(startup, SYSTEM_CLOCK, status, observe)
    if is_master(target):
        from tidegate.runtime.spark.driver import SparkDriver

        return SparkDriver(startup, SYSTEM_CLOCK, status, observe)
    if target == SUBMITTED:
        raise ConfigError(
            "execution.target is required under spark-submit; got none; set it, or TIDEGATE_EXECUTION_TARGET, to the master "
            "URL given to spark-submit, or to embedded to run on this machine only"
        )
    connect = ", a Spark Connect URL, which cannot run Python functions as jobs" * target.startswith("sc://")
    raise ConfigError(
        f"execution.target is {target!r}{connect}; expected embedded, inline or the URL of a Spark master: {MASTERS}"
    )


def _storage(root: str, options: JobOptions) -> CheckpointStorage:
    storage = open_storage(root, options.new_mode, options.components)
    if isinstance(storage, Buffered):
        # State below the threshold is never a file, so pieces need not be smaller.
        return storage.buffered(max(options.buffer_bytes, options.inline_bytes))
    return storage


@contextlib.contextmanager
def checkpoint_root(launch: Launch) -> Iterator[str]:
    """The checkpoint directory; a temporary one for a program without a name, removed after the run."""
    if launch.root is not None:
        yield launch.root
    elif launch.options.root is not None:
        yield launch.options.root
    elif _has_name(launch):
        yield str(default_root(os.environ))
    else:
        with OwnedDirectory("run") as directory:
            yield str(directory)


def _has_name(launch: Launch) -> bool:
    return bool(launch.options.pipeline_id or launch.job_name or launch.script)


def _has_lasting_id(launch: Launch) -> bool:
    return launch.root is None and _has_name(launch)


def _pipeline_id(launch: Launch) -> PipelineId:
    if not _has_lasting_id(launch):
        return PipelineId(f"unnamed-{new_id(8)}")
    name = launch.options.pipeline_id or launch.job_name or str(launch.script)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    if readable == name and len(name) <= _LONGEST_NAME:
        return PipelineId(name)
    # Names that become equal when special characters are replaced must not share checkpoints.
    return PipelineId(
        f"{readable[-_LONGEST_NAME:].lstrip('-.') or 'job'}-{xxhash.xxh32_hexdigest(name.encode())}"
    )


class _Terminated(BaseException):
    """SIGTERM arrived while this process was a standby."""


@contextlib.contextmanager
def _terminated_by_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _stopping_on_signals(stop: Callable[[], None], startup: Startup) -> Iterator[None]:
    """SIGTERM and the first Ctrl-C stop the job, with a final checkpoint if possible; a second Ctrl-C ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        doing = startup.program.stop_description()
        startup.say(f"{signal.Signals(number).name}: {doing}; press Ctrl-C again to end at once")
        stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
