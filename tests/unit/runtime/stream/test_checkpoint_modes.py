"""Who may read what a job remembers: its user alone, unless `state.checkpoints.dir-mode` says otherwise."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import ConfigError
from tidegate.runtime.options import JobOptions
from tidegate.types import Types


class Counts(KeyedProcessFunction):
    """Counts per key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.count.update(self.count.value() + 1)
        yield value


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The umask of a user whose new files everybody may write to."""
    before = os.umask(0)
    yield
    os.umask(before)


def run(place: Path, target: str, **settings: str) -> None:
    """A job with checkpoints, a savepoint and an event log."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "pipeline.event-log": str(place / "events"),
            "parallelism.default": 1,
            "state.checkpoints.dir": str(place / "new/state"),
            "state.backend.fs.memory-threshold": 0,
            "execution.checkpointing.interval": "10 ms",
            **{name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()},
        }
    )
    env.from_source(GeneratorSource(int, None, rate_per_second=500.0)).key_by(lambda n: n % 4).process(
        Counts()
    )
    client = env.execute_async("counting")
    client.trigger_savepoint(str(place / "new/savepoint")).result()
    until(lambda: list((place / "new/state").glob("*/chk-*/_settled")), job=client)
    client.cancel().result()


def modes(root: Path, kind: Callable[[Path], bool]) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if kind(path)}


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("target", ["inline", pytest.param("embedded", marks=pytest.mark.processes)])
def test_only_its_user_reads_what_a_job_writes(tmp_path: Path, target: str) -> None:
    run(tmp_path, target)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"state", "savepoint"}
    assert modes(tmp_path, Path.is_dir) == {0o700}
    assert modes(tmp_path, Path.is_file) == {0o600}, "the event log too"


@pytest.mark.usefixtures("open_umask")
def test_the_mode_that_a_setting_names_is_that_of_checkpoints_and_savepoints(tmp_path: Path) -> None:
    run(tmp_path, "inline", state__checkpoints__dir_mode="0750")
    assert modes(tmp_path, Path.is_dir) == {0o750}
    assert modes(tmp_path / "new", Path.is_file) == {0o640}
    assert modes(tmp_path, lambda path: path.name == "events") == {0o600}


def test_an_event_log_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "events").touch(0o644)
    run(tmp_path, "inline")
    assert modes(tmp_path, lambda path: path.name == "events") == {0o644}


@pytest.mark.parametrize("mode", ["0700", "700", "0750", "2770", "0755"])
def test_modes_that_fit(mode: str) -> None:
    assert JobOptions(dir_mode=mode).dir_mode == mode


@pytest.mark.parametrize("mode", ["rwx", "0888", "0600", "0777", "0702", "07700", "4700", "", "0o700"])
def test_modes_that_do_not_fit_are_refused(mode: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"option 'state.checkpoints.dir-mode' has an invalid value; got '{mode}'; expected an octal mode that "
        r"gives the owner 7 and others no write access, such as 0700, 0750 or 2770$",
    ):
        JobOptions(dir_mode=mode)
