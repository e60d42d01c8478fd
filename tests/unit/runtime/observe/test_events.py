from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.clock import ManualClock
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.observe.events import EventFile, EventLog


def test_every_event_becomes_a_line_that_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"what": "of the run before"}\n')
    with EventFile(str(path), {"job": "orders", "run": "ab12"}) as file:
        log = EventLog(ManualClock(now_ms=1_500), file)
        log.append("state", "running")
        log.append("acked", "checkpoint 3", checkpoint=CheckpointId(3), subtask=Subtask("sums", 1))

    before, state, acked = map(json.loads, path.read_text().splitlines())

    assert before == {"what": "of the run before"}
    assert state == {
        "at": "1970-01-01T00:00:01.500Z",
        "job": "orders",
        "run": "ab12",
        "what": "state",
        "text": "running",
    }
    assert (acked["checkpoint"], acked["uid"], acked["subtask"]) == (3, "sums", 1)


def test_memory_holds_the_newest_events_and_knows_how_many_there_were() -> None:
    log = EventLog(ManualClock())
    for number in range(1_500):
        log.append("said", str(number))

    assert (log.count, len(list(log))) == (1_500, 1_000)
    assert [event.text for event in log.since(1_498)] == ["1498", "1499"]
    assert log.since(1_500) == []
    assert len(log.since(0)) == 1_000


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"pipeline\.event-log is '.*missing/log', which cannot be written: No such"
    ):
        EventFile(str(tmp_path / "missing" / "log"), {})


def test_a_full_disk_ends_nobody() -> None:
    with EventFile("/dev/full", {}) as file:
        EventLog(ManualClock(), file).append("state", "running")
