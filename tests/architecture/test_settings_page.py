"""The page of settings is what the declarations of all options say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = ".ci/settings.py"


def test_page_is_current(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", SCRIPT, "--check"], cwd=root, capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    "row",
    [
        "| `parallelism.default` |  | subtasks per operator; default: the cores of this machine |",
        "| `state.backend.heap.max-state` | 5,242,880 bytes | maximum size of one state of a subtask |",
        "| `state.backend.rocksdb.compression.per.level` | LZ4_COMPRESSION |",
        "| `heartbeat.interval` | 10,000 ms | interval between heartbeat requests to the processes |",
        "| `connector.kafka.sink.pool` | 5 |",
    ],
    ids=["engine", "heap", "rocksdb", "embedded", "kafka"],
)
def test_page_names_key_default_and_meaning(root: Path, row: str) -> None:
    assert row in (root / "docs/settings.md").read_text(encoding="utf-8")
