"""Who starts when there are slots for some: all at once, stage by stage, in turn, or each region by itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.waiting import until
from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.embedded import jobmanager
from tidegate.runtime.embedded.cluster import MessageHandler, ProcessCluster


@pytest.fixture(autouse=True)
def carried_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import this module."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def environment(place: Path, task_managers: int, **settings: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "minicluster.number-of-taskmanagers": task_managers,
            "state.checkpoints.dir": str(place / "state"),
            "restart-strategy.fixed-delay.attempts": 0,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
    )


class Noted:
    """A function that gives what it is given, and notes that it ran."""

    def __init__(self, file: Path, word: str) -> None:
        self.file = file
        self.word = word

    def __call__(self, value: Any) -> Any:
        with self.file.open("a") as file:
            file.write(f"{self.word}\n")
        return value


@pytest.mark.spec("004/AX-041", "003/JM-13", "004/SCH-008", "004/SCH-012")
@pytest.mark.processes
def test_a_stream_wants_all_of_its_slots_at_once_and_fails_where_there_are_too_few(tmp_path: Path) -> None:
    env = environment(tmp_path, 2, parallelism__default=3)
    env.from_parallel_collection(range(9)).map(Noted(tmp_path / "ran", "ran")).sink_to(
        FileSink(tmp_path / "out")
    )

    with pytest.raises(
        ConfigError, match=r"the job needs 3 slots; got 2 \(task managers: 2, slots of each: 1\)"
    ):
        env.execute("eager")
    assert not (tmp_path / "ran").exists()


@pytest.mark.spec("004/AX-041", "003/JM-14", "003/JM-15", "004/SCH-009", "004/SCH-010", "004/SCH-013")
@pytest.mark.processes
def test_a_batch_job_runs_stage_by_stage_from_its_sources_with_fewer_slots_than_tasks(tmp_path: Path) -> None:
    env = environment(tmp_path, 1, parallelism__default=2, **{"execution.runtime-mode": "BATCH"})
    ran = tmp_path / "ran"
    read = env.from_parallel_collection([(n % 5, 1) for n in range(50)]).map(Noted(ran, "read"))
    counts = read.key_by(lambda pair: pair[0]).sum(1).map(Noted(ran, "counted"))
    last = counts.rebalance().map(Noted(ran, "told"))

    assert sorted(last.execute_and_collect()) == [(n, 10) for n in range(5)]
    assert ran.read_text().split() == ["read"] * 50 + ["counted"] * 5 + ["told"] * 5


class Late(ProcessCluster):
    """Task managers that start at once, but the second one when something was seen, or in vain."""

    seen: Path
    in_vain: list[bool]

    def __init__(self, deliver: MessageHandler) -> None:
        super().__init__(deliver)
        self._waiting = threading.Thread(target=self._wait, name="late")

    def start(self, workers: Sequence[int]) -> None:
        self._workers = workers
        if list(workers) == [1]:
            self._waiting.start()
        else:
            super().start(workers)

    def close(self, how: Any) -> None:
        if self._waiting.ident is not None:
            self._waiting.join()
        super().close(how)

    def _wait(self) -> None:
        with contextlib.suppress(AssertionError):
            until(self.seen.exists, 60)
        self.in_vain.append(not self.seen.exists())
        super().start(self._workers)


@pytest.mark.spec("004/AX-041", "003/JM-16", "004/SCH-014", "004/SCH-016")
@pytest.mark.processes
def test_a_region_that_has_its_slots_starts_while_another_waits_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(Late, "seen", first, raising=False)
    monkeypatch.setattr(Late, "in_vain", [], raising=False)
    monkeypatch.setattr(jobmanager, "ProcessCluster", Late)
    env = environment(tmp_path, 2, parallelism__default=1)
    for witness in (first, second):
        numbers = env.from_parallel_collection(range(3)).slot_sharing_group(witness.name)
        numbers.map(Noted(witness, "ran")).sink_to(FileSink(tmp_path / "out")).uid(f"to {witness.name}")

    assert env.execute("two regions").state == "finished"
    assert Late.in_vain == [False], "the second region's task manager came after the first region had run"
    assert first.read_text() == second.read_text() == "ran\n" * 3
