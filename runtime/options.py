"""Options of a job, with Flink's key where Flink has one."""

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
"""Default time between two checkpoints."""

FIRST_MS: Final = 1_000
"""Time from the start to the first checkpoint, unless the program sets an interval or a pause."""

SUBMITTED: Final = "spark-submit"
"""The default target of a program that spark-submit started; it means that the setting is missing."""

ClaimMode = Literal["NO_CLAIM", "CLAIM"]
CheckpointingMode = Literal["EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"]
SavepointFormat = Literal["canonical", "native"]
Retention = Literal["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"]

Progress = Literal["auto", "plain", "json", "off"]
Granularity = Literal["net", "event"]

_HEAP = {"hashmap": "heap", "jobmanager": "heap"}
"""Flink's enum names."""

_command_line = Layer("command line", {})
_file: Layer | None = None


@dataclass(frozen=True)
class JobOptions(RestartOptions, EmbeddedOptions, SparkOptions):
    """Options of a job. Precedence: the program's code, the command line, environment variables, `tidegate.toml`."""

    pipeline_id: str | None = option(
        "pipeline.id", None, "name of the pipeline, the same over all runs; default: the job's name"
    )
    target: str = option("execution.target", "embedded", "embedded, inline, or the URL of a Spark master")
    mode: RuntimeMode = option(
        "execution.runtime-mode",
        "STREAMING",
        "STREAMING, BATCH, or AUTOMATIC: BATCH if all sources are bounded",
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
        "pipeline.operator-chaining.enabled", True, "whether operators may be chained in one task"
    )
    buffer_timeout_ms: int = option(
        "execution.buffer-timeout",
        0,
        "how long an exchange collects records before it sends a buffer; 0 sends at once, -1 sends only full buffers",
        least=-1,
    )
    watermark_interval_ms: int | None = option(
        "pipeline.auto-watermark-interval",
        None,
        "interval of periodic watermarks; 0: only punctuated watermarks; "
        "default: after each batch of a source",
        least=0,
    )
    managed_bytes: int | None = option(
        "taskmanager.memory.managed.size",
        None,
        "memory of a process for RocksDB and sorting, divided among its slots; default: no common limit",
    )
    backend: str = option(
        "state.backend.type",
        "filesystem",
        "heap, filesystem, rocksdb or a registered backend; also named state.backend",
        old="state.backend",
    )
    background_snapshots: bool = option(
        "state.backend.async", True, "whether records are processed while a snapshot is written"
    )
    incremental: bool = option(
        "state.backend.incremental",
        True,
        "whether a checkpoint writes only the changes since the previous one",
    )
    cache_entries: int = option(
        "state.cache.entries", 100_000, "rows of keyed state cached as objects in each subtask", least=0
    )
    local_dirs: tuple[str, ...] = option(
        "taskmanager.state.local.root-dirs",
        (),
        "directories for working state, distributed over the task managers; default: the system's temporary directory",
    )
    granularity: Granularity = option(
        "state.log.granularity",
        "net",
        "net: log the new values; event: also log each change and the record that caused it",
    )
    journaled: tuple[str, ...] = option(
        "state.log.operators",
        (),
        "uids of the operators with granularity event; default: all keyed operators",
    )
    root: str | None = option(
        "state.checkpoints.dir",
        None,
        "directory or URL of the checkpoints; default: $XDG_STATE_HOME/tidegate",
    )
    dir_mode: str | None = option(
        "state.checkpoints.dir-mode",
        None,
        "octal mode of new directories of checkpoints and savepoints, such as 0770; files are the same without x; "
        "default: 0700",
    )
    retained: int = option("state.checkpoints.num-retained", 10, "number of retained checkpoints")
    inline_bytes: int = option(
        "state.backend.fs.memory-threshold",
        20 * 1024,
        "smaller pieces of state are stored in the metadata file",
        least=0,
    )
    buffer_bytes: int = option(
        "state.backend.fs.write-buffer-size",
        1024 * 1024,
        "size of the pieces in which a file is written to a directory",
    )
    interval_ms: int | None = option(
        "execution.checkpointing.interval",
        None,
        "time between two checkpoints; default: 10 s, the first one after 1 s; iterations: none",
    )
    checkpointing: CheckpointingMode = option(
        "execution.checkpointing.mode",
        "EXACTLY_ONCE",
        "EXACTLY_ONCE; AT_LEAST_ONCE: no barrier alignment; NONE: one checkpoint at the end and no restarts",
    )
    unaligned: bool = option(
        "execution.checkpointing.unaligned.enabled",
        False,
        "whether barriers overtake in-flight records and store them; also named execution.checkpointing.unaligned",
        old="execution.checkpointing.unaligned",
    )
    aligned_ms: int = option(
        "execution.checkpointing.aligned-checkpoint-timeout",
        0,
        "how long a barrier is aligned before it overtakes records; also named execution.checkpointing.alignment-timeout",
        old="execution.checkpointing.alignment-timeout",
        least=0,
    )
    pause_ms: int = option(
        "execution.checkpointing.min-pause",
        0,
        "least time between the end of a checkpoint and the next one",
        least=0,
    )
    max_concurrent: int = option(
        "execution.checkpointing.max-concurrent-checkpoints",
        1,
        "limit of concurrent checkpoints; there is always at most one, whatever the limit",
    )
    forced: bool = option(
        "execution.checkpointing.force",
        False,
        "take checkpoints of iterations, without the records in feedback edges",
    )
    timeout_ms: int = option(
        "execution.checkpointing.timeout",
        600_000,
        "a checkpoint is aborted after this time; a job that ends fails if commits are refused for this time",
    )
    tolerated_failures: int | None = option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        None,
        "consecutive failed checkpoints that are tolerated; default: no limit, but 2 at the end of the job",
        least=0,
    )
    retention: Retention = option(
        "execution.checkpointing.externalized-checkpoint-retention",
        "RETAIN_ON_CANCELLATION",
        "RETAIN_ON_CANCELLATION or DELETE_ON_CANCELLATION: whether a cancelled job keeps its checkpoints",
    )
    savepoints: str | None = option("state.savepoints.dir", None, "default directory or URL of savepoints")
    savepoint: str | None = option(
        "execution.savepoint.path",
        None,
        "checkpoint or savepoint to start from instead of the newest checkpoint",
    )
    claim_mode: ClaimMode = option(
        "execution.savepoint-restore-mode",
        "NO_CLAIM",
        "NO_CLAIM copies the files of a savepoint; CLAIM makes them the pipeline's own, which deletes them later",
    )
    ignore_unclaimed: bool = option(
        "execution.savepoint.ignore-unclaimed-state",
        False,
        "drop state whose operator is not in the program any more",
    )
    state_map: str = option(
        "execution.savepoint.map",
        "",
        "old=new pairs of operator uids, separated by commas: restore the state of old to new; old= drops the state",
    )
    fresh: bool = option("execution.fresh", False, "start without state, with a new lineage of checkpoints")
    standby: bool = option(
        "high-availability.standby",
        False,
        "wait while another process owns the pipeline; take over when it has ended or does not renew its lease",
    )
    lease_ms: int = option(
        "high-availability.lease",
        LEASE_MS,
        "lease timeout: an owner on another machine, or of a standby, counts as dead if it does not renew for this long",
    )
    accept_loss: int | None = option(
        "execution.accept-loss",
        None,
        "resume from this checkpoint although some of its output is lost, or may be lost",
    )
    replay_from: int | None = option(
        "execution.replay-from",
        None,
        "go back to this checkpoint, 0 for the beginning, and write all later output again",
        least=0,
    )
    take_over: bool = option(
        "execution.take-over",
        False,
        "remove external claims of other pipelines, such as an output directory or a prefix of transactional ids",
    )
    progress: Progress = option(
        "pipeline.progress", "auto", "progress display of a running job on standard error"
    )
    event_log: str | None = option(
        "pipeline.event-log", None, "file to which all events of a run are appended as lines of JSON"
    )
    http_port: int | None = option(
        "metrics.http.port",
        None,
        "port of /metrics and /status; 0: any free port; default: no server",
        least=0,
    )
    http_address: str = option(
        "metrics.http.bind-address",
        "127.0.0.1",
        "bind address of /metrics and /status; 0.0.0.0 makes them reachable from other machines",
    )
    faults: str = option("testing.faults", "", "crash points, for tests of recovery")
    faults_dir: str | None = option(
        "testing.faults-dir", None, "directory in which crash points record that they were reached"
    )
    components: Mapping[str, Any] = options_of_components(declared_classes)
    """Options of backends, storages, connectors and formats that are set, by dotted key."""
    origins: Mapping[str, str] = origins()
    """The layer that set each key."""
    resources: ProgramResources = field(default_factory=ProgramResources)
    """Set by the program only."""

    def strategy(self) -> RestartStrategy:
        """A new restart strategy; without checkpoints there are no restarts, because they would repeat all work."""
        return NoRestart() if self.checkpointing == "NONE" else super().strategy()

    @property
    def of_backend(self) -> dict[str, Any]:
        """The options that are set for the chosen backend."""
        return options_for(f"backend.{self.backend}", self.components)

    @property
    def exposed_ms(self) -> int:
        """The maximum time from the first record of prepared sink output to its commit.

        One interval until the checkpoint, one for each of two declined checkpoints after which the output is reported
        again, one for the decision and the commit, and the delays of restarts.
        """
        return 4 * self._spacing_ms + self.pauses_ms

    @property
    def commit_ms(self) -> int:
        """The minimum time before prepared sink output expires when its checkpoint is decided.

        Half an interval for the commit, and the delays of restarts. The other half in `exposed_ms` may pass before
        the decision.
        """
        return self._spacing_ms // 2 + self.pauses_ms

    @property
    def _spacing_ms(self) -> int:
        """The time between two checkpoints."""
        return max(self.interval_ms or INTERVAL_MS, self.pause_ms)

    @property
    def new_mode(self) -> int | None:
        """The mode of new directories of a checkpoint storage; None for its default."""
        return (
            None
            if self.dir_mode is None
            else parse_mode(self.dir_mode, "option 'state.checkpoints.dir-mode'")
        )

    def with_complete_urls(self) -> Self:
        """The same, with storage options as part of the URLs of checkpoints and savepoints."""
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
        """Arm the crash points of recovery tests in this process, whose role is `role`."""
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
            # Options of sources and sinks are checked later, together with those that the program sets.
            if component.kind in ("backend", "storage"):
                component.check(self.components)
        if self.journaled and self.granularity != "event":
            raise ConfigError(
                f"option 'state.log.operators' needs state.log.granularity event; got {self.granularity}; "
                "set it to event, or leave state.log.operators out"
            )
        if self.unaligned and self.checkpointing != "EXACTLY_ONCE":
            raise ConfigError(
                f"unaligned checkpoints need execution.checkpointing.mode EXACTLY_ONCE; got {self.checkpointing}; "
                "leave one of them out"
            )
        if self.checkpointing == "NONE" and self.interval_ms is not None:
            raise ConfigError(
                "execution.checkpointing.mode NONE takes no periodic checkpoints; got execution.checkpointing.interval; "
                "leave one of them out"
            )
        if self.faults and not self.faults_dir:
            raise ConfigError(
                "option 'testing.faults' needs 'testing.faults-dir', in which a crash point records that it was reached"
            )


def client_layers(environ: Mapping[str, str], directory: Path) -> tuple[Layer, ...]:
    """Command line, environment, the file that the command names, and `tidegate.toml` of a directory, strongest first.

    A program that spark-submit started has no default target: running silently on this machine only is not intended.
    """
    layers = [_command_line, from_environ(environ), *([] if _file is None else [_file])]
    file = directory / "tidegate.toml"
    if file.exists():
        layers.append(from_toml(file))
    if "PYSPARK_GATEWAY_PORT" in environ:
        layers.append(Layer(SUBMITTED, {"execution.target": SUBMITTED}))
    return tuple(layers)


def set_command_line(layer: Layer, file: Layer | None = None) -> None:
    """Set the command-line layer of the program in this process, and the file that the command names.

    A program that is not started by the command has neither.
    """
    global _command_line, _file
    _command_line, _file = layer, file


def default_root(environ: Mapping[str, str]) -> Path:
    """The default checkpoint directory."""
    home = environ.get("XDG_STATE_HOME")
    return Path(home) / "tidegate" if home else Path.home() / ".local/state/tidegate"
