"""Every setting of a job, with Flink's key where Flink has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from tidegate import faults
from tidegate.backends.private import parse_mode
from tidegate.backends.storage import complete
from tidegate.components import declared_classes, options_for, owner_of
from tidegate.errors import ConfigError
from tidegate.options import (
    Layer,
    check_ranges,
    from_environ,
    from_toml,
    option,
    options_of_components,
    origins,
)
from tidegate.runtime.embedded.options import EmbeddedOptions
from tidegate.runtime.graph.mode import RuntimeMode
from tidegate.runtime.program_resources import ProgramResources
from tidegate.runtime.schedule.restart import NoRestart, RestartStrategy
from tidegate.runtime.schedule.restart_options import RestartOptions
from tidegate.runtime.spark.options import SparkOptions
from tidegate.twophase.fencing import LEASE_MS

__all__ = [
    "FIRST_MS",
    "INTERVAL_MS",
    "SUBMITTED",
    "Granularity",
    "JobOptions",
    "Progress",
    "Retention",
    "SavepointFormat",
    "client_layers",
    "default_root",
    "set_command_line",
]

INTERVAL_MS: Final = 10_000
"""Between two checkpoints, unless the program says otherwise."""

FIRST_MS: Final = 1_000
"""From the start to the first checkpoint, unless the program sets an interval or a pause."""

SUBMITTED: Final = "spark-submit"
"""The target of a program that Spark's launcher has started, unless a setting names one."""

ClaimMode = Literal["NO_CLAIM", "CLAIM"]
CheckpointingMode = Literal["EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"]
SavepointFormat = Literal["canonical", "native"]
Retention = Literal["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"]

Progress = Literal["auto", "plain", "json", "off"]
Granularity = Literal["net", "event"]

_HEAP = {"hashmap": "heap", "jobmanager": "heap"}
"""Flink's names."""

_command_line = Layer("command line", {})
_file: Layer | None = None


@dataclass(frozen=True)
class JobOptions(RestartOptions, EmbeddedOptions, SparkOptions):
    """How a program runs; the program's own code is stronger than the command line, that than the environment,
    that than `tidegate.toml`."""

    pipeline_id: str | None = option(
        "pipeline.id", None, "name of the pipeline over restarts; default: the job's name"
    )
    target: str = option("execution.target", "embedded", "embedded, inline, or the URL of a Spark master")
    mode: RuntimeMode = option(
        "execution.runtime-mode", "STREAMING", "STREAMING, BATCH, or AUTOMATIC: BATCH if all inputs end"
    )
    sort_buffer_bytes: int = option(
        "execution.sorted-inputs.memory",
        32 * 1024 * 1024,
        "records that a batch task sorts in memory at once",
    )
    parallelism: int | None = option(
        "parallelism.default", None, "subtasks per operator; default: the cores of this machine"
    )
    max_parallelism: int | None = option("pipeline.max-parallelism", None, "key groups per operator")
    operator_chaining: bool = option(
        "pipeline.operator-chaining.enabled", True, "whether steps may share a thread"
    )
    buffer_timeout_ms: int = option(
        "execution.buffer-timeout",
        0,
        "how long records wait for others at an exchange; 0 sends at once, -1 only full buffers",
        least=-1,
    )
    watermark_interval_ms: int | None = option(
        "pipeline.auto-watermark-interval",
        None,
        "how often watermarks follow records; 0: only those of strategies that look at each record; "
        "default: after each batch of a source",
        least=0,
    )
    managed_bytes: int | None = option(
        "taskmanager.memory.managed.size",
        None,
        "memory of a process for RocksDB and for sorting, divided among its slots; default: each its own",
    )
    backend: str = option(
        "state.backend.type",
        "filesystem",
        "heap, filesystem, rocksdb or a registered one; also as state.backend",
        old="state.backend",
    )
    background_snapshots: bool = option(
        "state.backend.async", True, "whether records go on while a snapshot is written"
    )
    incremental: bool = option(
        "state.backend.incremental",
        True,
        "whether a checkpoint writes only what changed since the one before",
    )
    cache_entries: int = option(
        "state.cache.entries", 100_000, "rows of keyed state held as objects per subtask", least=0
    )
    local_dirs: tuple[str, ...] = option(
        "taskmanager.state.local.root-dirs",
        (),
        "directories for working state, dealt to the task managers; default: that of temporary files",
    )
    granularity: Granularity = option(
        "state.log.granularity",
        "net",
        "net: what state became; event: also each change and the record that made it",
    )
    journaled: tuple[str, ...] = option(
        "state.log.operators", (), "operators, by uid, that granularity event is for; default: all with keys"
    )
    root: str | None = option(
        "state.checkpoints.dir", None, "where checkpoints live; default: $XDG_STATE_HOME/tidegate"
    )
    dir_mode: str | None = option(
        "state.checkpoints.dir-mode",
        None,
        "octal mode of new directories of checkpoints and savepoints, such as 0770; files are the same without x; "
        "default: 0700",
    )
    retained: int = option("state.checkpoints.num-retained", 10, "checkpoints kept for going back")
    inline_bytes: int = option(
        "state.backend.fs.memory-threshold",
        20 * 1024,
        "smaller pieces of state live in the metadata",
        least=0,
    )
    buffer_bytes: int = option(
        "state.backend.fs.write-buffer-size",
        1024 * 1024,
        "how much of a file is written to a directory at once",
    )
    interval_ms: int | None = option(
        "execution.checkpointing.interval",
        None,
        "time between two checkpoints; default: 10 s, the first one after 1 s; iterations: none",
    )
    checkpointing: CheckpointingMode = option(
        "execution.checkpointing.mode",
        "EXACTLY_ONCE",
        "EXACTLY_ONCE, AT_LEAST_ONCE without waiting for barriers, or NONE before the end and without restarts",
    )
    unaligned: bool = option(
        "execution.checkpointing.unaligned.enabled",
        False,
        "whether checkpoints overtake records on their way and keep them; also as execution.checkpointing.unaligned",
        old="execution.checkpointing.unaligned",
    )
    aligned_ms: int = option(
        "execution.checkpointing.aligned-checkpoint-timeout",
        0,
        "how long unaligned checkpoints wait for records on their way; also as execution.checkpointing.alignment-timeout",
        old="execution.checkpointing.alignment-timeout",
        least=0,
    )
    pause_ms: int = option(
        "execution.checkpointing.min-pause", 0, "between the end of a checkpoint and the next one", least=0
    )
    max_concurrent: int = option(
        "execution.checkpointing.max-concurrent-checkpoints",
        1,
        "how many checkpoints may be under way; there is one at a time, however many may be",
    )
    forced: bool = option(
        "execution.checkpointing.force", False, "checkpoints without what iterations have on its way"
    )
    timeout_ms: int = option(
        "execution.checkpointing.timeout",
        600_000,
        "after this a checkpoint is given up; and a job that ends, if its output is refused for so long",
    )
    tolerated_failures: int | None = option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        None,
        "checkpoints in a row that may come to nothing; default: any number, but 2 at the end",
        least=0,
    )
    retention: Retention = option(
        "execution.checkpointing.externalized-checkpoint-retention",
        "RETAIN_ON_CANCELLATION",
        "RETAIN_ON_CANCELLATION or DELETE_ON_CANCELLATION: whether a cancelled job leaves its checkpoints",
    )
    savepoints: str | None = option(
        "state.savepoints.dir", None, "where savepoints of running jobs go unless told otherwise"
    )
    savepoint: str | None = option(
        "execution.savepoint.path", None, "checkpoint or savepoint to start from instead of the newest"
    )
    claim_mode: ClaimMode = option(
        "execution.savepoint-restore-mode",
        "NO_CLAIM",
        "NO_CLAIM copies the files of a savepoint; CLAIM makes them the pipeline's own, to be deleted",
    )
    ignore_unclaimed: bool = option(
        "execution.savepoint.ignore-unclaimed-state",
        False,
        "leave state behind whose operator the program no longer has",
    )
    state_map: str = option(
        "execution.savepoint.map",
        "",
        "old=new, with commas between: whose state goes to which operator, by uid; old= leaves state behind",
    )
    fresh: bool = option("execution.fresh", False, "begin a new history instead of going on")
    standby: bool = option(
        "high-availability.standby",
        False,
        "wait while another process owns the pipeline, and take over when it is gone or does not renew its lease",
    )
    lease_ms: int = option(
        "high-availability.lease",
        LEASE_MS,
        "an owner elsewhere, or one that is stood by for, is taken for gone if it shows no sign for so long",
    )
    accept_loss: int | None = option(
        "execution.accept-loss", None, "go on from this checkpoint though output of it is lost, or may be"
    )
    replay_from: int | None = option(
        "execution.replay-from",
        None,
        "go back to this checkpoint, 0 for the beginning, and write again what output came later",
        least=0,
    )
    take_over: bool = option(
        "execution.take-over",
        False,
        "set aside what other pipelines claim outside, such as an output directory or a prefix of transactional ids",
    )
    progress: Progress = option(
        "pipeline.progress", "auto", "how a running job shows itself on standard error"
    )
    event_log: str | None = option(
        "pipeline.event-log", None, "a file that gets everything that happens to a run as lines of JSON"
    )
    http_port: int | None = option(
        "metrics.http.port",
        None,
        "port of /metrics and /status; 0: a free one; default: they are not served",
        least=0,
    )
    http_address: str = option(
        "metrics.http.bind-address", "127.0.0.1", "address of /metrics and /status; 0.0.0.0 lets others look"
    )
    faults: str = option("testing.faults", "", "crash points, for tests of recovery")
    faults_dir: str | None = option("testing.faults-dir", None, "where crash points leave their witness")
    components: Mapping[str, Any] = options_of_components(declared_classes)
    """What was set of the options of backends, storages, connectors and formats, by dotted key."""
    origins: Mapping[str, str] = origins()
    """Where each key was set."""
    resources: ProgramResources = field(default_factory=ProgramResources)
    """Set by the program alone."""

    def strategy(self) -> RestartStrategy:
        """A restart strategy that has seen no failure yet; without checkpoints a restart would do everything again."""
        return NoRestart() if self.checkpointing == "NONE" else super().strategy()

    @property
    def of_backend(self) -> dict[str, Any]:
        """What was said about the chosen backend; what was not is its own default."""
        return options_for(f"backend.{self.backend}", self.components)

    @property
    def exposed_ms(self) -> int:
        """From the first record of a sink's work to its commit.

        One interval until the checkpoint, one for each of two declined checkpoints after which the work is reported
        again, one for the decision and the commit, and the pauses of restarts.
        """
        return 4 * self._spacing_ms + self.pauses_ms

    @property
    def commit_ms(self) -> int:
        """What must be left of the time of a sink's work when its checkpoint is decided.

        Half an interval for the commit, and the pauses of restarts. The other half that `exposed_ms` has for it may
        pass before the decision.
        """
        return self._spacing_ms // 2 + self.pauses_ms

    @property
    def _spacing_ms(self) -> int:
        """The time between two checkpoints."""
        return max(self.interval_ms or INTERVAL_MS, self.pause_ms)

    @property
    def new_mode(self) -> int | None:
        """The mode of directories that a checkpoint storage makes; None for its own default."""
        return (
            None
            if self.dir_mode is None
            else parse_mode(self.dir_mode, "option 'state.checkpoints.dir-mode'")
        )

    def with_complete_urls(self) -> Self:
        """The same, with URLs of checkpoints and savepoints that say themselves what was set for their storage."""
        if not self.components:
            return self
        values = self.components
        return replace(
            self,
            root=self.root and complete(self.root, values),
            savepoints=self.savepoints and complete(self.savepoints, values),
            savepoint=self.savepoint and complete(self.savepoint, values),
        )

    def arm_faults(self, role: str) -> None:
        """Make this process, known as `role`, die where a test of recovery asks for it."""
        if self.faults and self.faults_dir:
            faults.arm(faults.parse(self.faults), role, Path(self.faults_dir))
        else:
            faults.disarm()

    def __post_init__(self) -> None:
        for group in (RestartOptions, EmbeddedOptions, SparkOptions):
            group.__post_init__(self)
        object.__setattr__(self, "backend", _HEAP.get(self.backend, self.backend))
        check_ranges(self)
        _ = self.new_mode
        for component in {owner_of(key) for key in self.components}:
            # What a program leaves open in its sources and sinks is checked together with what it does not.
            if component.kind in ("backend", "storage"):
                component.check(self.components)
        if self.journaled and self.granularity != "event":
            raise ConfigError(
                "option 'state.log.operators' says whose changes are all kept; got state.log.granularity "
                f"{self.granularity}; expected event; leave one of them out"
            )
        if self.unaligned and self.checkpointing != "EXACTLY_ONCE":
            raise ConfigError(
                f"unaligned checkpoints need execution.checkpointing.mode EXACTLY_ONCE; got {self.checkpointing}, "
                "whose barriers nothing waits for; leave one of them out"
            )
        if self.checkpointing == "NONE" and self.interval_ms is not None:
            raise ConfigError(
                "execution.checkpointing.mode NONE takes no checkpoint on the way; got execution.checkpointing.interval; "
                "leave one of them out"
            )
        if self.faults and not self.faults_dir:
            raise ConfigError(
                "option 'testing.faults' needs 'testing.faults-dir', where a crash leaves its witness"
            )


def client_layers(environ: Mapping[str, str], directory: Path) -> tuple[Layer, ...]:
    """Command line, environment, the file that the command names, and `tidegate.toml` of a directory, strongest first.

    What spark-submit has started runs nowhere by default: on this machine alone, without a word, is not what was meant.
    """
    layers = [_command_line, from_environ(environ), *([] if _file is None else [_file])]
    file = directory / "tidegate.toml"
    if file.exists():
        layers.append(from_toml(file))
    if "PYSPARK_GATEWAY_PORT" in environ:
        layers.append(Layer(SUBMITTED, {"execution.target": SUBMITTED}))
    return tuple(layers)


def set_command_line(layer: Layer, file: Layer | None = None) -> None:
    """Settings of the command that runs the program in this process, and of a file that it names.

    A program started by itself has none.
    """
    global _command_line, _file
    _command_line, _file = layer, file


def default_root(environ: Mapping[str, str]) -> Path:
    """Where checkpoints live unless told otherwise."""
    home = environ.get("XDG_STATE_HOME")
    return Path(home) / "tidegate" if home else Path.home() / ".local/state/tidegate"
