"""Ending a running program, and going on: exactly, at another parallelism, with another backend, from further back."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.runtime.audit import faults_in_totals
from tests.integration.runtime.conftest import Place, Running
from tests.waiting import PATIENCE_S, until
from tidegate.backends.storage import open_storage
from tidegate.connectors.base import RangeSplit
from tidegate.ids import CheckpointId, OperatorUid, RunId
from tidegate.runtime.checkpoint.archive import Archive, Retained

pytestmark = pytest.mark.crash

COUNT = 7_200
SLOWLY = {"count": COUNT, "rate": 2_400.0, "on_branch": "refuse"}
ENDLESS = {**SLOWLY, "count": 10**9}
AT_ONCE = {**SLOWLY, "rate": None}


def halfway(progress: dict[str, Any]) -> bool:
    return bool(progress.get("settled", 0) >= 2 and progress["records"] >= 300)


def stop(running: Running) -> dict[str, Any]:
    """Let a program come halfway and stop it as a service manager would."""
    running.until(halfway)
    running.process.send_signal(signal.SIGTERM)
    return running.result()


def processes_of(place: Place) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == place.directory:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize(
    ("number", "whom"),
    [
        (signal.SIGTERM, "the program"),
        (signal.SIGTERM, "its group"),
        (signal.SIGINT, "the program"),
        (signal.SIGINT, "its group"),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else value,
)
def test_a_signal_stops_with_a_last_checkpoint_and_the_next_start_goes_on_exactly(
    place: Place, number: signal.Signals, whom: str, target: str
) -> None:
    place.settings = {"execution.target": target}
    running = place.start("totals.py", SLOWLY)
    running.until(halfway)
    if whom == "its group":
        running.signal_group(number)
    else:
        running.process.send_signal(number)
    stopped = running.result()

    assert (stopped["state"], stopped["restarts"]) == ("stopped", 0)
    assert stopped["records"] < COUNT
    written, first_pids = len(place.rows()), {row["pid"] for row in place.rows()}
    assert faults_in_totals(place.rows()) == []

    resumed = place.start("totals.py", AT_ONCE).result()

    assert faults_in_totals(place.rows(), COUNT) == []
    assert (resumed["state"], resumed["resumed_from"]) == ("finished", stopped["checkpoint"])
    # What lay before the last checkpoint was not read again, and only that.
    before = [row for row in place.rows() if row["pid"] in first_pids]
    assert len(before) == written
    assert resumed["records"] == COUNT - _read_before(place, stopped)


def _read_before(place: Place, stopped: dict[str, Any]) -> int:
    """How many records lie before the positions of the last checkpoint of a stopped run."""
    storage = open_storage(str(place.directory / "state"))
    known = Retained(RunId(stopped["run"]), CheckpointId(stopped["checkpoint"]))
    assert storage.decisions is not None
    source = Archive(storage.blobs, storage.decisions).load(known).operator(OperatorUid("payments"))
    assert source is not None
    assert source.coordinator is not None
    waiting = msgspec.msgpack.decode(source.coordinator)["splits"]
    splits = [msgspec.msgpack.decode(split, type=RangeSplit) for split in source.splits]
    splits += [msgspec.convert(split, RangeSplit) for split in waiting]
    return COUNT - sum(len(split.head(COUNT)) for split in splits)


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_the_second_ctrl_c_ends_at_once(place: Place, target: str) -> None:
    place.settings = {"execution.target": target}
    running = place.start("stuck.py")
    running.until(lambda progress: progress.get("state") == "running")
    running.signal_group(signal.SIGINT)
    said = running.until(lambda progress: "said" in progress and "SIGINT" in progress["said"])
    running.until(lambda progress: progress.get("state") == "stopping")

    running.signal_group(signal.SIGINT)
    # A last checkpoint would never come.
    assert running.process.wait(timeout=PATIENCE_S) == -signal.SIGINT

    assert said["said"] == "SIGINT: taking a final checkpoint; press Ctrl-C again to end at once"
    code, _, err = running.end()
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    until(lambda: processes_of(place), equals=[])


def test_a_signal_cancels_a_batch_job_and_says_so(place: Place) -> None:
    place.settings = {"execution.target": "embedded", "execution.runtime-mode": "BATCH"}
    running = place.start("stuck.py")
    running.until(lambda progress: progress.get("state") == "running")
    running.process.send_signal(signal.SIGTERM)
    said = running.until(lambda progress: "said" in progress and "SIGTERM" in progress["said"])
    code, _, err = running.end()

    assert said["said"] == (
        "SIGTERM: cancelling the job; no final checkpoint is possible; press Ctrl-C again to end at once"
    )
    assert (
        code,
        "no final checkpoint is possible: batch job 'stuck' takes one only at its end; the job was cancelled"
        in err,
    ) == (1, True)
    until(lambda: processes_of(place), equals=[])


@pytest.mark.parametrize("before", ["heap", "filesystem", "rocksdb"])
def test_a_checkpoint_resumes_with_another_backend_at_another_parallelism(
    place: Place, before: str, tmp_path: Path
) -> None:
    place.settings = {"state.backend.type": before, "state.backend.fs.memory-threshold": 64}
    stopped = stop(place.start("totals.py", SLOWLY))

    for after, parallelism in zip(
        [backend for backend in ("heap", "filesystem", "rocksdb") if backend != before], (3, 1), strict=True
    ):
        settings = {"state.backend.type": after, "parallelism.default": parallelism}
        # State and output were moved: the output still belongs to the pipeline at the place before.
        other = Place(tmp_path / after, {**settings, "execution.take-over": True})
        shutil.copytree(place.directory / "state", other.directory / "state")
        shutil.copytree(place.output, other.output)
        resumed = other.start("totals.py", AT_ONCE).result()

        assert faults_in_totals(other.rows(), COUNT) == []
        assert (resumed["state"], resumed["resumed_from"]) == ("finished", stopped["checkpoint"])
        assert resumed["records"] < COUNT


def test_there_and_back_again_keeps_every_total(place: Place) -> None:
    place.settings = {"state.backend.fs.memory-threshold": 0}
    for backend, parallelism in (("rocksdb", 2), ("heap", 3), ("rocksdb", 1)):
        place.settings |= {"state.backend.type": backend, "parallelism.default": parallelism}
        stop(place.start("totals.py", SLOWLY | {"count": 4 * COUNT}))
    place.start("totals.py", AT_ONCE | {"count": 4 * COUNT}, state__backend__type="filesystem").result()

    assert faults_in_totals(place.rows(), 4 * COUNT) == []


def test_going_back_is_refused_by_a_sink_that_has_committed_since_and_done_if_it_may_append(
    place: Place,
) -> None:
    stopped = stop(place.start("totals.py", SLOWLY))
    kept = sorted(
        int(path.parent.name.removeprefix("chk-"))
        for path in (place.directory / "state" / stopped["run"]).glob("chk-*/_metadata")
    )
    before = place.rows()

    refused = place.start("totals.py", AT_ONCE, execution__savepoint__path=str(kept[0]))
    code, _, err = refused.end()
    assert code == 2
    assert "sink 'files' has committed " in err
    assert f"records after checkpoint {kept[0]} (" in err
    assert "restoring would write them twice; give the sink on_branch='append' to allow that" in err
    assert place.rows() == before

    unknown = place.start("totals.py", AT_ONCE, execution__savepoint__path="999")
    code, _, err = unknown.end()
    assert code == 2
    assert (
        "'999' is not a savepoint or a retained checkpoint of pipeline 'totals'; expected a retained one ("
        in err
    )

    appending = AT_ONCE | {"on_branch": "append"}
    resumed = place.start("totals.py", appending, execution__savepoint__path=str(kept[0])).result()

    assert (resumed["state"], resumed["resumed_from"]) == ("finished", kept[0])
    history = [
        row for path in place.output.glob("part-*") for row in _lines_before_or_in_branch(path, kept[0])
    ]
    assert faults_in_totals(history, COUNT) == []
    assert len(place.rows()) > len(history), "what the older branch wrote is still there"


def _lines_before_or_in_branch(path: Path, checkpoint: int) -> list[dict[str, Any]]:
    """The records of a file if it belongs to the history that went on from `checkpoint`."""
    name = path.stem
    branch = int(name.split(".")[1].split("-")[0])
    number = int(name.rpartition("-")[2])
    if branch == 0 and number > checkpoint:
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_timers_fire_once_over_a_stop(place: Place) -> None:
    alarms = {"count": 100_000, "rate": 600.0}
    stopped = stop(place.start("timers.py", alarms))
    first = place.rows()

    running = place.start("timers.py", alarms)
    running.until(lambda progress: progress.get("settled", 0) >= 2 and progress["records"] >= 700)
    running.process.send_signal(signal.SIGTERM)
    running.result()

    fired = [row["id"] for row in place.rows()]
    assert len(fired) == len(set(fired))
    assert {row["kind"] for row in place.rows()} == {"processing"}
    due = set(range(stopped["records"] // 2 - 10))
    assert due
    assert due <= set(fired), "timers set before the stop were lost"
    assert len(first) < len(fired)


def test_event_timers_fire_at_the_end_of_the_input(place: Place) -> None:
    place.start("timers.py", {"count": 50, "rate": 10_000.0}).result()

    fired = sorted(row["id"] for row in place.rows() if row["kind"] == "event")
    assert fired == [n for n in range(50) if n % 5]


def test_a_second_start_of_a_running_pipeline_is_refused(place: Place) -> None:
    first = place.start("totals.py", ENDLESS)
    first.until(halfway)

    code, _, err = place.start("totals.py", ENDLESS).end()

    assert code == 2
    assert "pipeline 'totals': the pipeline is already running as run " in err
    assert f"in process {first.process.pid} on host " in err
    first.process.send_signal(signal.SIGTERM)
    assert first.result()["state"] == "stopped"
