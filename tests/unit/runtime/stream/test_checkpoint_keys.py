"""The settings of checkpoints and of where state lives, as programs carry them in a `Configuration`: what each does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.spi import Blobs, CheckpointStorage
from tidegate.backends.storage import LocalStorage, MemoryStorage
from tidegate.common import Configuration
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, RunId
from tidegate.runtime.checkpoint.archive import Archive, Retained
from tidegate.runtime.checkpoint.manifest import files_of
from tidegate.runtime.job import Program, Startup
from tidegate.runtime.result import JobResult
from tidegate.types import Types


class Keeps(KeyedProcessFunction):
    """Keeps a text, and tells what working state there is below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[str, bool]]:
        self.kept.update("x" * 100)
        for place in self.root.glob("*/tidegate-state-*"):
            yield place.parent.name, any(place.rglob("CURRENT"))


def configured(target: str, **settings: str) -> StreamExecutionEnvironment:
    """An environment; keyword `a__b_c` sets `a.b-c`."""
    configuration = Configuration()
    configuration.set_string("execution.target", target).set_string("pipeline.progress", "off")
    configuration.set_integer("parallelism.default", 2)
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    for name, value in settings.items():
        configuration.set_string(name.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def run(env: StreamExecutionEnvironment, count: int = 250) -> JobResult:
    source = GeneratorSource(lambda n: n, count=count, rate_per_second=400.0)
    env.from_source(source).key_by(lambda n: n).process(Keeps(Path("nowhere")))
    return env.execute("keys")


@pytest.fixture(params=["inline", "embedded"])
def target(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.mark.parametrize(
    ("backend", "on_disk"),
    [("rocksdb", True), ("filesystem", False), ("jobmanager", False), ("hashmap", False)],
)
def test_state_backend_and_local_root_dirs_say_what_holds_working_state_and_where(
    target: str, tmp_path: Path, backend: str, on_disk: bool
) -> None:
    roots = f"{tmp_path / 'one'}, {tmp_path / 'two'}"
    env = configured(target, state__backend=backend, taskmanager__state__local__root_dirs=roots)

    told = set(
        env.from_collection(range(20)).key_by(lambda n: n).process(Keeps(tmp_path)).execute_and_collect()
    )

    assert {name for name, _ in told} == ({"one"} if target == "inline" else {"one", "two"})
    assert any(found for _, found in told) == on_disk
    assert [*(tmp_path / "one").iterdir()] == []


def test_a_root_directory_that_cannot_be_made_is_named(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = configured(target, taskmanager__state__local__root_dirs=str(tmp_path / "file"))

    with pytest.raises(
        ConfigError, match=r"cannot write working state to .*file: .*taskmanager.state.local.root-dirs"
    ):
        run(env)


class Watching(MemoryStorage):
    """Notes which threads write state."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    @property
    def blobs(self) -> Blobs:
        blobs = super().blobs
        put = type(blobs).put

        def noting(name: str, source: bytes | Path) -> None:
            if "/shared/" in name:
                self.threads.add(threading.current_thread().name)
            put(blobs, name, source)

        blobs.put = noting  # type: ignore[method-assign]
        return blobs


@pytest.mark.parametrize(
    ("wanted", "thread"), [("true", "tidegate-background"), ("false", "tidegate-worker")]
)
def test_state_backend_async_says_who_writes_snapshots(
    monkeypatch: pytest.MonkeyPatch, wanted: str, thread: str
) -> None:
    storage = Watching()
    monkeypatch.setattr("tidegate.runtime.launch.open_storage", lambda *_: storage)

    run(configured("inline", state__backend__async=wanted, state__backend__fs__memory_threshold="0"))

    assert {name.partition("_")[0] for name in storage.threads} == {thread}


@pytest.mark.parametrize(("threshold", "files"), [("0", True), ("1 mb", False)])
def test_memory_threshold_and_checkpoints_dir_say_how_large_state_gets_files_where(
    target: str, tmp_path: Path, threshold: str, files: bool
) -> None:
    env = configured(
        target, state__checkpoints__dir=str(tmp_path), state__backend__fs__memory_threshold=threshold
    )

    result = run(env)

    assert bool(list((tmp_path / result.run).glob("shared/*"))) == files
    assert (tmp_path / result.run / f"chk-{result.checkpoint}" / "_metadata").exists()


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
@pytest.mark.parametrize("incremental", [True, False])
def test_state_backend_incremental_says_whether_checkpoints_share_files(
    target: str, tmp_path: Path, backend: str, incremental: bool
) -> None:
    env = configured(
        target,
        state__backend=backend,
        state__backend__incremental=str(incremental),
        state__checkpoints__dir=str(tmp_path),
        state__backend__fs__memory_threshold="0",
    )

    result = run(env)

    archive = Archive(LocalStorage(tmp_path).blobs, LocalStorage(tmp_path).decisions)
    numbers = sorted(int(path.name.removeprefix("chk-")) for path in tmp_path.glob(f"{result.run}/chk-*"))
    held = [files_of(archive.load(Retained(RunId(result.run), CheckpointId(n)))) for n in numbers[-2:]]
    earlier, newest = filter(None, held)
    assert newest.isdisjoint(earlier) is not incremental


@pytest.mark.parametrize(("size", "pieces"), [("64 kb", 16), ("1 mb", 1)])
def test_write_buffer_size_says_in_how_many_pieces_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, pieces: int
) -> None:
    opened: list[CheckpointStorage] = []

    def watched(program: Program, storage: CheckpointStorage, *more: Any) -> Startup:
        opened.append(storage)
        return Startup(program, storage, *more)

    monkeypatch.setattr("tidegate.runtime.launch.Startup", watched)
    run(
        configured(
            "inline", state__checkpoints__dir=str(tmp_path), state__backend__fs__write_buffer_size=size
        ),
        count=1,
    )
    content = bytes(1024 * 1024)

    before = writes()
    opened[0].blobs.put("some", content)

    assert writes() - before == pieces
    assert (tmp_path / "some").read_bytes() == content


def writes() -> int:
    """How often this thread has told the system to write something."""
    counts = dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())
    return int(counts["syscw"])


@pytest.mark.parametrize("retained", [1, 3])
def test_num_retained_says_how_many_checkpoints_stay(target: str, tmp_path: Path, retained: int) -> None:
    env = configured(
        target, state__checkpoints__dir=str(tmp_path), state__checkpoints__num_retained=str(retained)
    )

    result = run(env)

    assert result.checkpoint is not None
    numbers = range(max(1, result.checkpoint - retained + 1), result.checkpoint + 1)
    assert {path.name for path in (tmp_path / result.run).glob("chk-*")} == {f"chk-{n}" for n in numbers}


def test_both_names_of_the_backend_at_once_are_refused() -> None:
    env = configured("inline", state__backend="rocksdb", state__backend__type="heap")

    with pytest.raises(
        ConfigError, match=r"'state.backend' and 'state.backend.type' in program are the same option"
    ):
        run(env)


def test_all_of_them_go_together(target: str, tmp_path: Path) -> None:
    env = configured(
        target,
        state__backend="rocksdb",
        state__backend__async="true",
        state__backend__fs__memory_threshold="1024",
        state__backend__fs__write_buffer_size="4096",
        state__backend__incremental="true",
        state__backend__local_recovery="true",
        state__checkpoints__dir=f"file://{tmp_path / 'checkpoints'}",
        state__checkpoints__num_retained="2",
        state__savepoints__dir=f"file://{tmp_path / 'savepoints'}",
        taskmanager__state__local__root_dirs=str(tmp_path / "local"),
    )

    assert run(env, count=50).state == "finished"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "local"}
