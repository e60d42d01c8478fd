"""What a job on Spark says when it cannot go on, and what it gets over by itself."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tidegate.backends.storage import open_storage
from tidegate.errors import ConfigError, JobFailedError
from tidegate.runtime.checkpoint.record import Record

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def final(job: Any) -> Any:
    """A job whose first failure is its last."""
    job.settings["restart-strategy.fixed-delay.attempts"] = 0
    return job


def test_an_error_in_a_task_restarts_the_job_from_its_newest_checkpoint(job: Any) -> None:
    job.arm("taskmanager-1/task.after-snapshot!raise")
    job.settings["restart-strategy.fixed-delay.delay"] = "1 ms"

    result = job.run()

    assert (result.state, result.restarts) == ("finished", 1)
    assert job.audit() == []


def test_an_error_of_tidegate_in_a_task_names_the_subtask(final: Any) -> None:
    final.arm("taskmanager-1/task.after-snapshot!raise")

    with pytest.raises(
        JobFailedError, match=r"used up: subtask source-1\[1\]: InjectedFault\w*: injected at task"
    ):
        final.run()


def test_an_error_of_a_user_function_names_the_operator_and_the_record(final: Any) -> None:
    def fail(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "amount": 1 // (value["id"] - 150)}

    with pytest.raises(JobFailedError, match=r"operator 'map' .* on record .*'id': 150.* ZeroDivisionError"):
        final.run(before=fail)


def test_what_cannot_travel_to_executors_is_named_with_its_operator(final: Any) -> None:
    lock = threading.Lock()

    def held(value: Any) -> Any:
        with lock:
            return value

    with pytest.raises(
        ConfigError,
        match=r"operator 'map' \(uid 'map-1'\) cannot be sent to another process: TypeError: .*lock",
    ):
        final.run(before=held)


def test_a_module_that_executors_do_not_find_is_named_with_the_machine(
    final: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("only_the_driver_has_it")
    exec("def same(value):\n    return value", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    with pytest.raises(
        ConfigError,
        match=rf"the program needs module 'only_the_driver_has_it', .* where it runs \({platform.node()}, {sys.executable}\)",
    ):
        final.run(before=module.same)


def test_a_task_that_always_dies_ends_in_the_words_of_spark(final: Any) -> None:
    def die(value: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(
        JobFailedError, match=r"epoch of checkpoint 1 failed on spark: Job aborted .* failed 4 times"
    ):
        final.run(before=die)


def test_an_epoch_that_takes_too_long_is_given_up(final: Any) -> None:
    final.settings["execution.checkpointing.timeout"] = "1 ms"

    with pytest.raises(JobFailedError, match=r"used up: .*the epoch .*did not end within 1 ms"):
        final.run()


def test_epochs_that_come_to_nothing_end_the_job(final: Any) -> None:
    with pytest.raises(JobFailedError, match=r"3 checkpoints in a row failed; the last one, checkpoint 3: "):
        final.run(before=_no_place_for_metadata(final.directory / "state"))

    assert final.rows() == []
    assert not list(final.output.rglob("*.pending"))


def test_a_spark_that_does_not_start_is_named(final: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--no-such-option")
    with final.started() as process:
        _, said = process.communicate(timeout=120)

    assert process.returncode == 1
    assert (
        "JobFailedError: job 'totals' failed and its restarts are used up: spark at local[2] did not start"
        in said
    )


def _no_place_for_metadata(root: Path) -> Callable[[Any], Any]:
    def block(value: Any) -> Any:
        decisions = open_storage(str(root)).decisions
        assert decisions is not None
        decision = decisions.read("totals/latest")
        assert decision is not None
        run = root / msgspec.msgpack.decode(decision.data, type=Record).lease.run
        run.mkdir(exist_ok=True)
        for checkpoint in range(1, 4):
            (run / f"chk-{checkpoint}").touch()
        return value

    return block
