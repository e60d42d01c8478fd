"""A program with every kind of state is stopped by a signal and goes on elsewhere: other processes, another backend."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "programs" / "states.py"
COUNT = 600


def start(place: Path, rate: float | None, **settings: Any) -> subprocess.Popen[str]:
    merged = {
        "state.checkpoints.dir": str(place / "state"),
        "execution.checkpointing.interval": "50 ms",
        "pipeline.progress": "json",
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    command = [sys.executable, "-P", str(PROGRAM), str(place / "output"), json.dumps(merged)]
    command.append(json.dumps([COUNT, rate]))
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place, start_new_session=True
    )


def result(running: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def rows(place: Path) -> list[dict[str, Any]]:
    lines = [line for path in (place / "output").glob("part-*") for line in path.read_text().splitlines()]
    return [json.loads(json.loads(line)) if line.startswith('"') else json.loads(line) for line in lines]


@pytest.mark.crash
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"execution__target": "embedded", "parallelism__default": 2, "state__backend__type": "rocksdb"}, 3),
        ({"execution__target": "embedded", "parallelism__default": 3, "state__backend__type": "heap"}, 1),
        ({"execution__target": "inline", "parallelism__default": 1, "state__backend__type": "filesystem"}, 2),
        (
            {
                "execution__target": "embedded",
                "parallelism__default": 2,
                "state__backend__fs__memory-threshold": 0,
            },
            3,
        ),
    ],
    ids=["rocksdb-2-to-3", "heap-3-to-1", "filesystem-inline-1-to-2", "all-in-files-2-to-3"],
)
def test_all_state_is_there_after_a_stop_and_a_start(
    tmp_path: Path, before: dict[str, Any], after: int
) -> None:
    running = start(tmp_path, 200.0, **before)
    assert running.stderr is not None
    for line in running.stderr:
        seen = json.loads(line)
        if seen.get("settled", 0) >= 2 and seen["records"] >= 100:
            break
    running.send_signal(signal.SIGTERM)
    stopped = result(running)
    assert stopped["state"] == "stopped", stopped
    earlier = {row["id"] for row in rows(tmp_path)}

    resumed = result(start(tmp_path, None, **{**before, "parallelism__default": after}))

    assert (resumed["state"], resumed["resumed_from"]) == ("finished", stopped["checkpoint"])
    found = rows(tmp_path)
    assert sorted(row["id"] for row in found) == list(range(COUNT))
    assert 0 < len(earlier) < COUNT
    assert {row["rules"] for row in found if row["id"] not in earlier} == {3}
    by_key: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        by_key[row["id"] % 7].append(row)
    for of_key in by_key.values():
        of_key.sort(key=lambda row: len(row["seen"]))
        order = [row["id"] for row in of_key]
        for number, row in enumerate(of_key, start=1):
            assert row["seen"] == row["named"] == order[:number]
            assert row["most"] == max(order[:number])
