"""Every declared key through `tidegate run -D key=value`: what it does is seen, or it is refused for what it means.

`EVERY` has an entry for each key that the engine or a component declares. `Seen` is a pattern of what a job reports with the
setting and does not report without it. `Refused` is the message for a value that cannot be. `Arrives` is for what only a
server, a failure or a long run would show: the value reaches the job, and the test that it names shows what comes of it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tidegate.components import components
from tidegate.options import as_mapping, declarations
from tidegate.runtime.cli.explain import launch_of
from tidegate.runtime.cli.main import _parser, main
from tidegate.runtime.options import JobOptions

ROOT = Path(__file__).resolve().parents[4]
ROCKSDB = "state.backend.rocksdb."

JOB = '''
from pathlib import Path
from tidegate.connectors.files import FileSink
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.types import Types

class Count(KeyedProcessFunction):
    """Counts per key, and notes what the database says about itself."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        for file in Path(".").rglob("db/OPTIONS-*"):
            Path("options").write_text(f"at {file}\\n" + file.read_text())
        if value == "bad":
            yield object()
        yield value

env = StreamExecutionEnvironment.get_execution_environment()
stream = env.from_collection(["a", "b", "c", "bad"] * 5).map(str).key_by(lambda value: value)
stream.process(Count()).uid("count").filter(lambda value: value != "bad" and type(value) is str).sink_to(FileSink("out"))
print(env.explain())
result = env.execute("walk")
print("result", result)
for name, value in result.metrics.items():
    print("metric", name, type(value).__name__, value)
'''

DESCRIBED = """
from tidegate.cdc.postgres import PostgresSource
from tidegate.connectors.database import Database, DatabaseSink
from tidegate.connectors.files import FileSink
from tidegate.connectors.formats import RegistryAvro, SchemaRegistry
from tidegate.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource, SchemaValues
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
source = KafkaSource("b:9092", ("orders",), deserializer=SchemaValues(RegistryAvro(SchemaRegistry("http://r:8081"))))
stream = env.from_source(source)
steps = [stream._transformation]
changes = env.from_source(PostgresSource({}, ["public.t"], "s"))
changes.print()
steps.append(changes._transformation)
for sink in (DatabaseSink(Database("postgresql://h/d"), "t"), KafkaSink("b:9092", KafkaRecordSerializationSchema("totals")), FileSink("out")):
    steps.append(stream.sink_to(sink)._transformation)
env.explain()
for step in steps:
    print(step.payload.options)
registry = steps[0].payload.deserializer._schema._registry
print("registry", {name: value for name, value in vars(registry).items() if name != "chosen"})
print("directory", env._launch((), None).options.root)
"""


@dataclass(frozen=True)
class Seen:
    """A pattern of the report of a job with the setting, and not of one without; `job` and `beside` are what it needs."""

    value: str
    pattern: str
    beside: tuple[str, ...] = ()
    job: str = JOB


@dataclass(frozen=True)
class Refused:
    """A pattern of the message."""

    value: str
    pattern: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrives:
    """What the option is in the job, and the test that shows its effect, as file and part of a name or of a text."""

    value: str
    arrived: Any
    proof: str


Entry: TypeAlias = Seen | Refused | Arrives


def database(value: str, pattern: str) -> Seen:
    """What RocksDB writes about its own options."""
    return Seen(value, rf"(?m)^ *{pattern}$", ("state.backend.type=rocksdb",))


def described(value: str, pattern: str, *beside: str) -> Seen:
    return Seen(value, pattern, beside, DESCRIBED)


def proven(value: str, arrived: Any, file: str, text: str) -> Arrives:
    return Arrives(value, arrived, f"{file}::{text}")


ENGINE: dict[str, Entry] = {
    "pipeline.id": Seen("walked", r"state/walked/latest"),
    "execution.target": Refused("nowhere", r"execution\.target is 'nowhere'; expected embedded, inline"),
    "execution.runtime-mode": Seen("BATCH", r"all-to-all, blocking"),
    "parallelism.default": Seen("2", r"chain 2: 2 subtasks"),
    "pipeline.max-parallelism": Refused("1", r"parallelism.*2.*1|1.*2", ("parallelism.default=2",)),
    "pipeline.operator-chaining.enabled": Seen("false", r"chain 4"),
    "state.backend.type": Seen("rocksdb", r"OPTIONS-\d+"),
    "state.checkpoints.dir": Seen("elsewhere", r"elsewhere/walk/latest"),
    "state.checkpoints.dir-mode": Seen("0750", r"750 state/walk\n"),
    "state.backend.fs.memory-threshold": Seen("0", r"state/\w+/shared/"),
    "pipeline.event-log": Seen("events.jsonl", r"600 events\.jsonl"),
    "pipeline.progress": Seen("json", r'\{"'),
    "metrics.http.port": Seen("0", r"metrics at http://127\.0\.0\.1:\d+/metrics"),
    "metrics.http.bind-address": Seen(
        "127.0.0.2", r"metrics at http://127\.0\.0\.2:", ("metrics.http.port=0",)
    ),
    "taskmanager.state.local.root-dirs": Seen("local", r"at local/", ("state.backend.type=rocksdb",)),
    "state.log.operators": Refused("count", r"state\.log\.operators.*state\.log\.granularity event; got net"),
    "execution.savepoint.path": Refused("nowhere", r"nowhere"),
    "execution.checkpointing.unaligned.enabled": Refused(
        "true",
        r"unaligned checkpoints need .* got AT_LEAST_ONCE",
        ("execution.checkpointing.mode=AT_LEAST_ONCE",),
    ),
    "execution.checkpointing.interval": Refused(
        "1 s", r"mode NONE takes no periodic checkpoints", ("execution.checkpointing.mode=NONE",)
    ),
    "execution.checkpointing.mode": Refused(
        "NONE", r"mode NONE takes no periodic checkpoints", ("execution.checkpointing.interval=1 s",)
    ),
    "execution.checkpointing.max-concurrent-checkpoints": Refused(
        "0", r"max-concurrent-checkpoints' is out of range; got 0; expected at least 1"
    ),
    "execution.fresh": Refused(
        "true", r"--fresh starts without state and -s starts", ("execution.savepoint.path=3",)
    ),
    "execution.savepoint-restore-mode": proven(
        "CLAIM", "CLAIM", "unit/runtime/stream/test_restoring.py", "CLAIM"
    ),
    "execution.savepoint.ignore-unclaimed-state": proven(
        "true", True, "unit/runtime/stream/test_state_evolution.py", "ignore-unclaimed-state"
    ),
    "execution.savepoint.map": proven(
        "old=new", "old=new", "unit/runtime/cli/test_automatic_uids.py", "--map"
    ),
    "execution.accept-loss": proven("3", 3, "unit/runtime/test_job.py", "accept_loss"),
    "execution.replay-from": proven("0", 0, "unit/runtime/test_job.py", "replay_from"),
    "execution.take-over": proven("true", True, "unit/runtime/test_take_over.py", "take-over"),
    "high-availability.standby": proven("true", True, "crash/test_standby.py", "owner_and_standby"),
    "high-availability.lease": proven(
        "3 s", 3_000, "unit/runtime/checkpoint/test_lease_acquirer.py", "lease"
    ),
    "execution.sorted-inputs.memory": proven(
        "1 mb", 2**20, "unit/runtime/stream/test_batch.py", "execution.sorted-inputs.memory"
    ),
    "execution.buffer-timeout": proven("-1", -1, "unit/runtime/stream/test_buffer_timeout.py", "buffer"),
    "pipeline.auto-watermark-interval": proven(
        "0", 0, "unit/runtime/stream/test_configured.py", "pipeline.auto-watermark-interval"
    ),
    "taskmanager.memory.managed.size": database("64 mb", "write_buffer_size=8388608"),
    "state.backend.async": proven(
        "false", False, "unit/runtime/stream/test_checkpoint_keys.py", "test_state_backend_async"
    ),
    "state.backend.incremental": proven(
        "false", False, "unit/runtime/stream/test_checkpoint_keys.py", "test_state_backend_incremental"
    ),
    "state.cache.entries": proven("1", 1, "integration/runtime/test_executors.py", "state.cache.entries"),
    "state.log.granularity": proven(
        "event", "event", "unit/runtime/stream/test_timeline.py", "state.log.granularity"
    ),
    "state.checkpoints.num-retained": proven(
        "1", 1, "unit/runtime/stream/test_checkpoint_keys.py", "test_num_retained"
    ),
    "state.backend.fs.write-buffer-size": proven(
        "4 kb", 4096, "unit/runtime/stream/test_checkpoint_keys.py", "test_write_buffer_size"
    ),
    "execution.checkpointing.aligned-checkpoint-timeout": proven(
        "1 s", 1_000, "unit/runtime/checkpoint/test_coordinator_pace.py", "aligned_ms"
    ),
    "execution.checkpointing.min-pause": proven(
        "1 s", 1_000, "unit/runtime/checkpoint/test_coordinator_pace.py", "pause_ms"
    ),
    "execution.checkpointing.force": proven("true", True, "unit/runtime/stream/test_iterations.py", "force"),
    "execution.checkpointing.timeout": proven(
        "1 s", 1_000, "unit/runtime/checkpoint/test_coordinator_pace.py", "timeout_ms"
    ),
    "execution.checkpointing.tolerable-failed-checkpoints": proven(
        "0", 0, "unit/runtime/stream/test_states_of_jobs.py", "tolerable-failed-checkpoints"
    ),
    "execution.checkpointing.externalized-checkpoint-retention": proven(
        "DELETE_ON_CANCELLATION",
        "DELETE_ON_CANCELLATION",
        "unit/runtime/stream/test_checkpoint_config.py",
        "DELETE_ON_CANCELLATION",
    ),
    "state.savepoints.dir": proven("saved", "saved", "integration/state/test_s3.py", "state.savepoints.dir"),
    "testing.faults": Refused(
        "commit.befor", r"did you mean 'commit\.before'", ("testing.faults-dir=witnesses",)
    ),
    "testing.faults-dir": proven("witnesses", "witnesses", "crash/conftest.py", "testing.faults-dir"),
}

RESTARTS: dict[str, Entry] = {
    "type": Refused("never", r"restart-strategy\.type.*'never'.*expected one of"),
    "fixed-delay.attempts": Refused("-1", "got -1; expected at least 0"),
    "fixed-delay.delay": proven("1 min", 60_000, "unit/runtime/test_supervise.py", "fixed-delay"),
    "failure-rate.max-failures-per-interval": proven(
        "3", 3, "unit/runtime/schedule/test_restart.py", "max-failures-per-interval"
    ),
    "failure-rate.failure-rate-interval": proven(
        "1 s", 1_000, "unit/runtime/schedule/test_restart.py", "failure-rate-interval"
    ),
    "failure-rate.delay": proven("2 s", 2_000, "unit/runtime/schedule/test_restart.py", "failure-rate.delay"),
    "exponential-delay.initial-backoff": proven(
        "2 s", 2_000, "unit/runtime/schedule/test_restart.py", "initial-backoff"
    ),
    "exponential-delay.max-backoff": proven(
        "2 s", 2_000, "unit/runtime/schedule/test_restart.py", "max-backoff"
    ),
    "exponential-delay.backoff-multiplier": Refused("0.5", "got 0.5; expected at least 1"),
    "exponential-delay.reset-backoff-threshold": proven(
        "2 s", 2_000, "unit/runtime/schedule/test_restart.py", "reset-backoff-threshold"
    ),
    "exponential-delay.jitter-factor": Refused("2", "got 2.0; expected 0 to 1"),
    "exponential-delay.attempts-before-reset-backoff": proven(
        "2", 2, "unit/runtime/schedule/test_restart.py", "attempts-before-reset-backoff"
    ),
}

EXECUTORS: dict[str, Entry] = {
    "minicluster.number-of-taskmanagers": proven(
        "2", 2, "unit/runtime/schedule/test_slots.py", "minicluster.number-of-taskmanagers"
    ),
    "taskmanager.numberOfTaskSlots": proven(
        "2", 2, "unit/runtime/schedule/test_slots.py", "taskmanager.numberOfTaskSlots"
    ),
    "state.backend.local-recovery": proven(
        "true", True, "unit/runtime/embedded/test_local_recovery.py", "local_recovery"
    ),
    "jobmanager.execution.failover-strategy": proven(
        "full", "full", "unit/runtime/embedded/test_part_restarts.py", "failover-strategy"
    ),
    "slot.request.timeout": proven(
        "1 s", 1_000, "unit/runtime/embedded/test_cluster.py", "slot.request.timeout"
    ),
    "heartbeat.interval": Refused("1 min", r"expected more than heartbeat\.interval, which is 60000"),
    "heartbeat.timeout": Refused("5 s", r"option 'heartbeat\.timeout' is out of range; got 5000"),
    "execution.spark.epoch-records": Seen(
        "5",
        r"execution\.spark\.epoch-records \(command line\) has no effect.*this job uses executor embedded",
    ),
    "execution.spark.epoch-bytes": Seen("5", r"execution\.spark\.epoch-bytes \(command line\) has no effect"),
    "execution.spark.epoch-reading-time": Seen(
        "5 s", r"execution\.spark\.epoch-reading-time \(command line\) has no effect"
    ),
    "execution.spark.trigger": Seen("once", r"execution\.spark\.trigger \(command line\) has no effect"),
}

DATABASE: dict[str, Entry] = {
    "memory.managed": Seen(
        "false",
        r"(?m)^ *write_buffer_size=(?!8388608)\d+$",
        ("state.backend.type=rocksdb", "taskmanager.memory.managed.size=64 mb"),
    ),
    "memory.fixed-per-slot": database("128 mb", "write_buffer_size=16777216"),
    "block.cache-size": Seen(
        "3 mb",
        r"metric .*block-cache-capacity int 3145728",
        ("state.backend.type=rocksdb", ROCKSDB + "metrics.block-cache-capacity=true"),
    ),
    "block.blocksize": database("16 kb", "block_size=16384"),
    "use-bloom-filter": database("false", "filter_policy=nullptr"),
    "bloom-filter.bits-per-key": proven(
        "40", 40, "unit/backends/rocksdb/test_options.py", "bloom-filter.bits-per-key"
    ),
    "writebuffer.size": database("2 mb", "write_buffer_size=2097152"),
    "writebuffer.count": database("5", "max_write_buffer_number=5"),
    "writebuffer.number-to-merge": Refused("4", r"number-to-merge' is out of range; got 4"),
    "compaction.level.target-file-size-base": database("3 mb", "target_file_size_base=3145728"),
    "compaction.level.max-size-level-base": database("9 mb", "max_bytes_for_level_base=9437184"),
    "compaction.level.use-dynamic-size": database("true", "level_compaction_dynamic_level_bytes=true"),
    "compaction.style": database("universal", "compaction_style=kCompactionStyleUniversal"),
    "thread.num": database("7", "max_background_jobs=7"),
    "files.open": database("99", "max_open_files=99"),
    "compression.per.level": database(
        "NO_COMPRESSION;ZSTD_COMPRESSION", "compression_per_level=kNoCompression:kZSTD"
    ),
    "log.level": database("ERROR_LEVEL", "info_log_level=ERROR_LEVEL"),
    "log.dir": database("logs", "600 logs/.*_LOG|.*logs/.*_LOG"),
    "log.max-file-size": database("9 kb", "max_log_file_size=9216"),
    "log.file-num": database("9", "keep_log_file_num=9"),
}

BACKENDS: dict[str, Entry] = {
    "state.backend.heap.max-state": Seen(
        "1 b",
        r"count.*too large|too large.*1",
        ("state.backend.type=heap", "execution.checkpointing.tolerable-failed-checkpoints=0"),
    ),
    **{ROCKSDB + key: entry for key, entry in DATABASE.items()},
    **{
        key: database("true", rf"metric count\.0\.rocksdb\.{re.escape(key.rpartition('.')[2])} int.*")
        for key in declarations(components()["backend.rocksdb"].declared)
        if key.startswith(ROCKSDB + "metrics.")
    },
}

CONNECTORS: dict[str, Entry] = {
    "s3.endpoint": described(
        "http://127.0.0.1:1",
        r"directory s3://b/x\?endpoint=http://127\.0\.0\.1:1",
        "state.checkpoints.dir=s3://b/x",
    ),
    "s3.region": described(
        "eu-west-1", r"directory s3://b/x\?region=eu-west-1", "state.checkpoints.dir=s3://b/x"
    ),
    "connector.files.sink.prefix": Seen("walked", r"out/walked-"),
    "connector.files.sink.suffix": Seen(".walked", r"out/.*\.walked\n"),
    "connector.files.sink.compression": Seen("gzip", r"out/.*\.gz\n"),
    "connector.files.sink.on-branch": described("append", r"FileSinkOptions\(.*on_branch='append'"),
    "connector.files.sink.on-error": described("skip", r"FileSinkOptions\(.*on_error='skip'"),
    "connector.files.sink.dead-letters": Refused(
        "dead", r"file sink has dead_letters, but on_error is 'fail'"
    ),
    "connector.files.sink.take-over": described("true", r"FileSinkOptions\(.*take_over=True"),
    "connector.database.sink.mode": described("prepared", r"DatabaseSinkOptions\(mode='prepared'"),
    "connector.database.sink.buffer-rows": described("8", r"DatabaseSinkOptions\(.*buffer_rows=8"),
    "connector.database.sink.flush-interval": described("7 s", r"flush_interval_ms=7000"),
    "connector.database.sink.on-branch": described("append", r"DatabaseSinkOptions\(.*on_branch='append'"),
    "connector.database.sink.schema": described("own", r"DatabaseSinkOptions\(.*schema='own'"),
    "connector.database.sink.prepared-alarm": described("7 s", r"prepared_alarm_ms=7000"),
    "connector.database.sink.take-over": described("true", r"DatabaseSinkOptions\(.*take_over=True"),
    "connector.postgres-cdc.start": described("latest", r"PostgresOptions\(start='latest'"),
    "connector.postgres-cdc.chunk-rows": described("8", r"chunk_rows=8"),
    "connector.postgres-cdc.on-truncate": described("skip", r"on_truncate='skip'"),
    "connector.postgres-cdc.slot-exists": described("recreate", r"slot_exists='recreate'"),
    "connector.postgres-cdc.streaming": described("true", r"streaming=True"),
    "connector.postgres-cdc.special-dates": described("null", r"special_dates='null'"),
    "connector.postgres-cdc.connect-timeout": described("7 s", r"connect_timeout_ms=7000"),
    "connector.kafka.sink.pool": described("8", r"KafkaSinkOptions\(.*pool=8"),
    "connector.kafka.sink.transaction-timeout": described("1 min", r"transaction_timeout_ms=60000"),
    "connector.kafka.sink.take-over": described("true", r"KafkaSinkOptions\(.*take_over=True"),
    "connector.kafka.sink.on-branch": described("append", r"KafkaSinkOptions\(.*on_branch='append'"),
    "connector.kafka.sink.on-error": described("skip", r"KafkaSinkOptions\(.*on_error='skip'"),
    "connector.kafka.sink.dead-letters": described(
        "dead", r"KafkaSinkOptions\(.*dead_letters='dead'", "connector.kafka.sink.on-error=dead_letter"
    ),
    "connector.kafka.source.on-error": described("skip", r"KafkaSourceOptions\(on_error='skip'"),
    "connector.kafka.source.on-topic-change": described("drop", r"on_topic_change='drop'"),
    "connector.kafka.source.discovery-interval": described("7 s", r"discovery_interval_ms=7000"),
    "connector.kafka.source.commit-offsets": described("false", r"commit_offsets=False"),
    "connector.kafka.source.timestamps": described("false", r"timestamps=False"),
    "format.registry.username": described("ada", r"registry .*'username': 'ada'"),
    "format.registry.password": described("word", r"registry .*'password': 'word'"),
    "format.registry.token": described("token1", r"registry .*'token': 'token1'"),
    "format.registry.ca-location": described("/ca", r"registry .*'ca_location': '/ca'"),
    "format.registry.certificate-location": described("/cert", r"registry .*'certificate_location': '/cert'"),
    "format.registry.timeout": described("7 s", r"registry .*'timeout_ms': 7000"),
}

EVERY: dict[str, Entry] = {
    **ENGINE,
    **{f"restart-strategy.{key}": entry for key, entry in RESTARTS.items()},
    **EXECUTORS,
    **BACKENDS,
    **CONNECTORS,
}


def of(kind: type[Entry]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("key", "entry"),
        [pytest.param(key, each, id=key) for key, each in EVERY.items() if isinstance(each, kind)],
    )


def test_every_declared_key_has_an_entry_and_no_other_has() -> None:
    declared = {*declarations(JobOptions)}.union(
        *(declarations(each.declared) for each in components().values())
    )

    assert sorted(EVERY.keys() ^ declared) == []


Report: TypeAlias = Callable[..., str]

_usual: dict[tuple[str, tuple[str, ...]], str] = {}
"""What jobs report without the setting that is looked at."""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """What a job says and leaves behind: its output, its warnings, and the files of its directory with their modes."""
    places = (tmp_path / str(number) for number in count())

    def run(program: str, *settings: str) -> str:
        place = next(places)
        (place / "logs").mkdir(parents=True)
        monkeypatch.chdir(place)
        Path("job.py").write_text(program, encoding="utf-8")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            code = main(["run", *_flags(settings), "job.py"])
        said = capsys.readouterr()
        found = sorted(place.rglob("*"))
        files = "".join(f"{path.stat().st_mode & 0o777:o} {path.relative_to(place)}\n" for path in found)
        noted = Path("options").read_text(encoding="utf-8") if Path("options").exists() else ""
        told = "\n".join(str(each.message) for each in warned)
        return f"code {code}\n{said.out}\n{said.err}\n{told}\n{files}\n{noted}"

    return run


BASE = {
    "execution.target": "inline",
    "parallelism.default": "1",
    "pipeline.progress": "plain",
    "state.checkpoints.dir": "state",
    "taskmanager.state.local.root-dirs": "work",
    "restart-strategy.type": "none",
}


def _flags(settings: tuple[str, ...]) -> list[str]:
    asked = dict(each.split("=", 1) for each in settings)
    return [part for key, value in (BASE | asked).items() for part in ("-D", f"{key}={value}")]


@of(Seen)
def test_effect_is_seen_with_the_setting_and_not_without(report: Report, key: str, entry: Seen) -> None:
    usual = entry.job, entry.beside
    if usual not in _usual:
        _usual[usual] = report(entry.job, *entry.beside)

    told = report(entry.job, f"{key}={entry.value}", *entry.beside)

    assert re.search(entry.pattern, told), told
    assert not re.search(entry.pattern, _usual[usual]), _usual[usual]


@of(Refused)
def test_value_that_cannot_be_is_refused(report: Report, key: str, entry: Refused) -> None:
    told = report(JOB, f"{key}={entry.value}", *entry.beside)

    assert not told.startswith("code 0\n")
    assert re.search(entry.pattern, told), told


@of(Arrives)
def test_value_arrives_and_a_test_shows_its_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, entry: Arrives
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(JOB.replace("print(env.explain())", ""), encoding="utf-8")

    launch = launch_of(_parser().parse_args(["explain", *_flags((f"{key}={entry.value}",)), "job.py"]))

    arrived = {**as_mapping(launch.options), **launch.options.components}
    assert arrived[key] == entry.arrived != as_mapping(JobOptions()).get(key)
    file, _, text = entry.proof.partition("::")
    assert text in (ROOT / "tests" / file).read_text(encoding="utf-8")
