"""What is left behind when something goes wrong on the way: nothing, and the pipeline free for the next start."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.errors import ConfigError, JobFailedError


class Unreachable(CollectionSource):
    """A source whose enumerator cannot look for splits."""

    def open_enumerator(self, context: Any, restored: Any) -> Any:
        enumerator = super().open_enumerator(context, restored)

        def start() -> None:
            raise self.error("no route to host")

        object.__setattr__(enumerator, "start", start)
        return enumerator

    error: type[BaseException] = OSError


class Interrupted(Unreachable):
    error = KeyboardInterrupt


def dies_at_once() -> KeyedProcessFunction:
    """A function whose worker process ends when it opens; defined here so that it travels by value."""

    class DiesAtOnce(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            os._exit(9)

        def process_element(self, value: Any, ctx: Any) -> None:
            pass

    return DiesAtOnce()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for everything temporary; afterwards no thread and no temporary directory of a run is left."""
    with tempfile.TemporaryDirectory() as temporary:  # a short path, since sockets go there too
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        before = set(threading.enumerate())
        yield tmp_path
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
        assert [thread.name for thread in set(threading.enumerate()) - before] == []
        assert list(Path(temporary).iterdir()) == []


def environment(
    place: Path, target: str, settings: Mapping[str, Any] | None = None, *, attempts: int = 1
) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "state.checkpoints.dir": str(place / "state"),
            "restart-strategy.fixed-delay.attempts": attempts,
            "restart-strategy.fixed-delay.delay": 0,
            **(settings or {}),
        }
    )


def runs(place: Path, target: str) -> str:
    env = environment(place, target)
    env.from_parallel_collection([1, 2]).sink_to(FileSink(place / "out")).uid("files")
    return env.execute("orders").state


@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize("source", [Unreachable, Interrupted], ids=["error", "ctrl-c"])
def test_a_start_that_fails_leaves_the_pipeline_to_the_next_one(
    place: Path, target: str, source: type[Unreachable]
) -> None:
    env = environment(place, target)
    env.from_source(source([1])).sink_to(FileSink(place / "out")).uid("files")

    with pytest.raises(source.error):
        env.execute("orders")

    assert runs(place, target) == "finished"


def killed_at(record: int, witness: Path) -> Any:
    """A function whose worker process is killed at a record, and that notes when."""

    def kill(value: int) -> int:
        if value == record:
            witness.write_text(f"{os.getpid()} {SYSTEM_CLOCK.monotonic()}")
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    return kill


@pytest.mark.processes
def test_a_task_manager_that_is_killed_is_noticed_at_once_and_named(place: Path) -> None:
    env = environment(place, "embedded", attempts=0)
    endless = GeneratorSource(int, None, rate_per_second=1_000)
    numbers = env.from_source(endless).set_parallelism(1).rebalance()
    numbers.map(killed_at(99, place / "witness")).name("fragile").uid("fragile").sink_to(
        FileSink(place / "out")
    )

    with pytest.raises(JobFailedError) as caught:
        env.execute("killed")

    pid, at = (place / "witness").read_text().split()
    assert SYSTEM_CLOCK.monotonic() - float(at) < 20, "noticed, not missed after heartbeat.timeout"
    assert f"ended (pid {pid}, killed by SIGKILL); it ran " in str(caught.value)
    assert "fragile[1]" in str(caught.value)


def stopped_at(record: int) -> Any:
    """A function whose worker process is stopped at a record, as if it hung."""

    def stop(value: int) -> int:
        if value == record:
            os.kill(os.getpid(), signal.SIGSTOP)
        return value

    return stop


@pytest.mark.processes
def test_a_task_manager_that_hangs_is_noticed_after_a_while_killed_and_named(place: Path) -> None:
    env = environment(
        place, "embedded", {"heartbeat.interval": "100 ms", "heartbeat.timeout": "2 s"}, attempts=0
    )
    numbers = (
        env.from_source(GeneratorSource(int, None, rate_per_second=1_000)).set_parallelism(1).rebalance()
    )
    numbers.map(stopped_at(99)).uid("fragile").sink_to(FileSink(place / "out"))

    hangs = (
        r"task manager \d hangs: it has not answered for \d{4,5} ms and was killed; it ran .*fragile\[\d\]"
    )
    with pytest.raises(JobFailedError, match=hangs):
        env.execute("hanging")


@pytest.mark.processes
def test_processes_that_do_not_start_in_time_are_slots_that_are_missing(place: Path) -> None:
    env = environment(place, "embedded", {"slot.request.timeout": "1 ms"}, attempts=0)
    env.from_parallel_collection([1, 2]).rebalance().map(abs).sink_to(FileSink(place / "out"))

    with pytest.raises(
        JobFailedError, match=r"not enough slots: 2 needed, got 0 after 1 ms; .* slot.request.timeout"
    ):
        env.execute("crowded")


def waits(seconds: float) -> Any:
    """A function that blocks once, with the interpreter lock free."""

    def wait(value: int) -> int:
        if value == 0:
            SYSTEM_CLOCK.sleep(seconds)
        return value

    return wait


@pytest.mark.processes
def test_a_function_that_blocks_longer_than_the_heartbeats_timeout_is_left_alone(place: Path) -> None:
    env = environment(
        place, "embedded", {"heartbeat.interval": "50 ms", "heartbeat.timeout": "2 s"}, attempts=0
    )
    env.from_parallel_collection([0, 1]).map(waits(2.5)).sink_to(FileSink(place / "out"))

    assert env.execute("patient").state == "finished"


def kills_its_parent(witness: Path) -> Any:
    """A function that kills the process its worker was forked from, once, and then goes on."""

    def kill(value: int) -> int:
        if not witness.exists():
            witness.write_text(f"{os.getpid()} {os.getppid()}")
            os.kill(os.getppid(), signal.SIGKILL)
        return value

    return kill


@pytest.mark.processes
def test_workers_end_when_the_process_they_were_forked_from_is_killed(place: Path) -> None:
    env = environment(place, "embedded", attempts=0)
    endless = GeneratorSource(int, None, rate_per_second=1_000)
    env.from_source(endless).set_parallelism(1).map(kills_its_parent(place / "witness")).rebalance().sink_to(
        FileSink(place / "out")
    )

    with pytest.raises(JobFailedError) as caught:
        env.execute("orphans")

    worker, parent = map(int, (place / "witness").read_text().split())
    assert f"ended (pid {parent}, killed by SIGKILL); it ran " in str(caught.value)
    with contextlib.suppress(ProcessLookupError):
        end = os.pidfd_open(worker)
        assert select.select([end], [], [], PATIENCE_S)[0] == [end]
        os.close(end)


def test_what_cannot_travel_leaves_nothing_behind(place: Path) -> None:
    lock = threading.Lock()
    env = environment(place, "embedded")
    env.from_parallel_collection([1]).map(lambda value: lock).sink_to(FileSink(place / "out")).uid("files")

    with pytest.raises(ConfigError, match="cannot be sent to another process"):
        env.execute("orders")

    assert runs(place, "embedded") == "finished"


def test_a_worker_that_always_dies_is_named_and_nothing_is_left(place: Path) -> None:
    env = environment(place, "embedded")
    env.from_parallel_collection([1, 2]).key_by(abs).process(dies_at_once()).sink_to(FileSink(place / "out"))

    with pytest.raises(JobFailedError, match=r"task manager \d ended \(pid \d+, exit code 9\); it ran "):
        env.execute("dying")
