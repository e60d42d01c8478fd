from __future__ import annotations

import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.files import FileSink, TextLines
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.launch import Launch, run_program
from tidegate.runtime.options import JobOptions, default_root
from tidegate.runtime.result import JobResult


def program(directory: Path, **settings: Any) -> Launch:
    """A small program without a name of its own."""
    env = StreamExecutionEnvironment()
    env.from_source(CollectionSource(["a", "b"])).sink_to(FileSink(directory / "out", TextLines()))
    options = JobOptions(
        **{"target": "inline", "progress": "off", "root": str(directory / "state"), **settings}
    )
    return Launch(tuple(env._sinks), None, options, None)


def launched(launch: Launch, name: str | None = None, script: Path | None = None) -> JobResult:
    return run_program(Launch(launch.steps, name, launch.options, script, launch.root))


@pytest.mark.parametrize(
    ("name", "script", "pipeline_id", "expected"),
    [
        ("orders", None, None, "orders"),
        (None, Path("/srv/jobs/orders.py"), None, "srv-jobs-orders.py"),
        ("orders", Path("/srv/jobs/orders.py"), None, "orders"),
        ("orders", Path("/srv/jobs/orders.py"), "given", "given"),
    ],
    ids=["name", "script", "name over script", "setting over both"],
)
def test_a_pipeline_is_called_by_its_setting_its_name_or_its_script(
    tmp_path: Path, name: str | None, script: Path | None, pipeline_id: str | None, expected: str
) -> None:
    result = launched(program(tmp_path, pipeline_id=pipeline_id), name, script)

    assert re.sub("-[0-9a-f]{8}$", "", result.pipeline) == expected
    assert (result.state, result.records) == ("finished", 2)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a/b", "a-b"), ("a b", "a/b"), ("订单", "客户"), ("-x", "x"), ("x" * 300, "y" + "x" * 299)],
)
def test_names_that_differ_are_pipelines_that_differ(tmp_path: Path, one: str, other: str) -> None:
    first = launched(program(tmp_path / "one"), one)
    second = launched(program(tmp_path / "other"), other)

    assert first.pipeline != second.pipeline
    assert all(re.fullmatch("[a-z0-9][a-z0-9.-]*", each.pipeline) for each in (first, second))
    assert first.pipeline == launched(program(tmp_path / "one"), one).pipeline


def test_a_program_without_any_name_remembers_nothing(tmp_path: Path) -> None:
    launch = program(tmp_path, root=None)

    first, second = launched(launch), launched(launch)

    assert first.pipeline != second.pipeline
    assert second.resumed_from is None


def test_the_root_follows_the_users_home() -> None:
    assert default_root({"XDG_STATE_HOME": "/x"}) == Path("/x/tidegate")
    assert default_root({}) == Path.home() / ".local/state/tidegate"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("parallelism", 0, "option 'parallelism.default' is out of range; got 0; expected at least 1"),
        ("parallelism", -2, "got -2; expected at least 1"),
        ("max_parallelism", 0, "option 'pipeline.max-parallelism' is out of range"),
        ("interval_ms", 0, "option 'execution.checkpointing.interval' is out of range; got 0"),
        (
            "retained",
            0,
            "option 'state.checkpoints.num-retained' is out of range; got 0; expected at least 1",
        ),
        ("restart_attempts", -1, "got -1; expected at least 0"),
    ],
)
def test_a_number_out_of_range_is_refused_wherever_it_comes_from(
    field: str, value: int, message: str
) -> None:
    given: dict[str, Any] = {field: value}

    with pytest.raises(ConfigError, match=message):
        JobOptions(**given)


def test_zero_is_a_number_of_restarts() -> None:
    assert JobOptions(restart_attempts=0, restart_delay_ms=0, inline_bytes=0).restart_attempts == 0


def test_signal_handlers_are_as_before_after_a_run(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    launched(program(tmp_path), "orders")

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_program_runs_in_any_thread(tmp_path: Path) -> None:
    results: list[JobResult] = []
    thread = threading.Thread(target=lambda: results.append(launched(program(tmp_path), "orders")))
    thread.start()
    thread.join()

    assert [result.state for result in results] == ["finished"]


def test_crash_points_without_a_place_for_their_witness_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"option 'testing\.faults' needs 'testing\.faults-dir'"):
        JobOptions(faults="commit.before")
