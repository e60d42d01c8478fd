"""Every setting of a job, with Flink's key where Flink has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tidegate import faults
from tidegate.errors import ConfigError
from tidegate.options import Layer, as_mapping, from_environ, from_toml, option
from tidegate.runtime.given import Given
from tidegate.runtime.graph.mode import RuntimeMode
from tidegate.runtime.schedule.restart import NoRestart, RestartStrategy
from tidegate.runtime.schedule.restart_options import RestartOptions
from tidegate.twophase.fencing import LEASE_MS

__all__ = [
    "INTERVAL_MS",
    "SUBMITTED",
    "Granularity",
    "JobOptions",
    "Progress",
    "Retention",
    "SavepointFormat",
    "SparkTrigger",
    "client_layers",
    "default_root",
    "set_command_line",
]

INTERVAL_MS: Final = 10_000
"""Between two checkpoints, unless the program says otherwise."""

SUBMITTED: Final = "spark-submit"
"""The target of a program that Spark's launcher has started, unless a setting names one."""

ClaimMode = Literal["NO_CLAIM", "CLAIM"]
CheckpointingMode = Literal["EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"]
SavepointFormat = Literal["canonical", "native"]
Retention = Literal["RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"]

Progress = Literal["auto", "plain", "json", "off"]
Granularity = Literal["net", "event"]
SparkTrigger = Literal["as-fast-as-possible", "interval", "available-now", "once"]

_FROM_ZERO = (
    "restart-strategy.",
    "execution.replay-from",
    "metrics.http.port",
    "state.backend.fs.memory-threshold",
    "state.cache.entries",
    "execution.checkpointing.tolerable-failed-checkpoints",
    "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.checkpointing.min-pause",
)

_HEAP = {"hashmap": "heap", "jobmanager": "heap"}
"""Flink's names."""

_LEAST = {"execution.buffer-timeout": -1}

_command_line = Layer("command line", {})
_file: Layer | None = None


@dataclass(frozen=True)
class JobOptions(RestartOptions):
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
    )
    task_managers: int | None = option(
        "minicluster.number-of-taskmanagers", None, "processes; default: as many as the job needs slots for"
    )
    task_slots: int = option(
        "taskmanager.numberOfTaskSlots", 1, "slots per process; they share one interpreter lock"
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
    heap_max_state_bytes: int | None = option(
        "state.backend.heap.max-state", None, "how large one state of a subtask may become; default: 5 mb"
    )
    cache_entries: int = option(
        "state.cache.entries", 100_000, "rows of keyed state held as objects per subtask"
    )
    local_dirs: tuple[str, ...] = option(
        "taskmanager.state.local.root-dirs",
        (),
        "directories for working state, dealt to the task managers; default: that of temporary files",
    )
    local_recovery: bool = option(
        "state.backend.local-recovery",
        False,
        "whether task managers keep copies of their snapshots for restarts; not on Spark",
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
    retained: int = option("state.checkpoints.num-retained", 10, "checkpoints kept for going back")
    inline_bytes: int = option(
        "state.backend.fs.memory-threshold", 20 * 1024, "smaller pieces of state live in the metadata"
    )
    buffer_bytes: int = option(
        "state.backend.fs.write-buffer-size",
        1024 * 1024,
        "how much of a file is written to a directory at once",
    )
    interval_ms: int | None = option(
        "execution.checkpointing.interval",
        None,
        "time between two checkpoints; default: 10 s, iterations: none",
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
    )
    pause_ms: int = option(
        "execution.checkpointing.min-pause", 0, "between the end of a checkpoint and the next one"
    )
    forced: bool = option(
        "execution.checkpointing.force", False, "checkpoints without what iterations have on its way"
    )
    timeout_ms: int = option(
        "execution.checkpointing.timeout", 600_000, "after this a checkpoint is given up"
    )
    tolerated_failures: int | None = option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        None,
        "checkpoints in a row that may come to nothing; default: any number, but 2 at the end",
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
    fresh: bool = option("execution.fresh", False, "begin a new history instead of going on")
    failover: Literal["region", "full"] = option(
        "jobmanager.execution.failover-strategy",
        "region",
        "region: what a failure concerns restarts, the rest runs on; full: everything restarts",
    )
    slot_timeout_ms: int = option(
        "slot.request.timeout", 300_000, "how long a part of a job waits for the processes with its slots"
    )
    heartbeat_ms: int = option(
        "heartbeat.interval", 10_000, "how often processes are asked whether they live"
    )
    heartbeat_timeout_ms: int = option(
        "heartbeat.timeout", 50_000, "a process that has not answered for so long is killed and replaced"
    )
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
    )
    take_over: bool = option(
        "execution.take-over",
        False,
        "set aside what other pipelines claim outside, such as a prefix of transactional ids",
    )
    epoch_records: int = option(
        "execution.spark.epoch-records", 100_000, "records read per source subtask and epoch on Spark"
    )
    epoch_bytes: int = option(
        "execution.spark.epoch-bytes",
        256 * 1024 * 1024,
        "bytes sent on per source subtask and epoch on Spark, after which it reads no more",
    )
    epoch_reading_ms: int = option(
        "execution.spark.epoch-reading-time", 30_000, "how long a source subtask reads in an epoch on Spark"
    )
    spark_trigger: SparkTrigger = option(
        "execution.spark.trigger",
        "as-fast-as-possible",
        "when an epoch begins: as-fast-as-possible while there is input; interval: once per checkpoint interval; "
        "available-now: until the input is read that is there, then stop; once: one epoch, then stop",
    )
    progress: Progress = option(
        "pipeline.progress", "auto", "how a running job shows itself on standard error"
    )
    event_log: str | None = option(
        "pipeline.event-log", None, "a file that gets everything that happens to a run as lines of JSON"
    )
    http_port: int | None = option(
        "metrics.http.port", None, "port of /metrics and /status; 0: a free one; default: they are not served"
    )
    http_address: str = option(
        "metrics.http.bind-address", "127.0.0.1", "address of /metrics and /status; 0.0.0.0 lets others look"
    )
    faults: str = option("testing.faults", "", "crash points, for tests of recovery")
    faults_dir: str | None = option("testing.faults-dir", None, "where crash points leave their witness")
    given: Given = field(default_factory=Given)
    """Set by the program alone."""

    def strategy(self) -> RestartStrategy:
        """A restart strategy that has seen no failure yet; without checkpoints a restart would do everything again."""
        return NoRestart() if self.checkpointing == "NONE" else super().strategy()

    @property
    def of_backend(self) -> dict[str, Any]:
        """What was said about the chosen backend; what was not is its own default."""
        prefix = f"state.backend.{self.backend}."
        settings = as_mapping(self).items()
        return {key: value for key, value in settings if key.startswith(prefix) and value is not None}

    @property
    def exposed_ms(self) -> int:
        """How long what a sink prepared may have to wait for its commit: an interval, and the pauses of restarts."""
        return (self.interval_ms or INTERVAL_MS) + self.pauses_ms

    def arm_faults(self, role: str) -> None:
        """Make this process, known as `role`, die where a test of recovery asks for it."""
        if self.faults and self.faults_dir:
            faults.arm(faults.parse(self.faults), role, Path(self.faults_dir))
        else:
            faults.disarm()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "backend", _HEAP.get(self.backend, self.backend))
        for key, value in as_mapping(self).items():
            least = _LEAST.get(key, 0 if key.startswith(_FROM_ZERO) else 1)
            if type(value) is int and value < least:
                raise ConfigError(f"option {key!r} is out of range; got {value}; expected at least {least}")
        if self.heartbeat_timeout_ms <= self.heartbeat_ms:
            raise ConfigError(
                f"option 'heartbeat.timeout' is out of range; got {self.heartbeat_timeout_ms}; expected more than "
                f"heartbeat.interval, which is {self.heartbeat_ms}"
            )
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
