"""Started by spark-submit: `submitted.py master directory`. Its function lies in a module that is shipped beside it.

Leaves in the directory what came out, in which process this ran and below which others, and whom tasks saw own the job.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.backends.storage import open_storage
from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.record import read_record


def lineage(pid: int) -> Iterator[int]:
    """A process and those that it descends from."""
    while pid:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def owner(root: str) -> int:
    """The process that holds the lease of the job at this moment."""
    decisions = open_storage(root).decisions
    assert decisions is not None
    record, _ = read_record(decisions, PipelineId("submitted"))
    return record.lease.pid if record is not None else 0


def main(master: str, directory: Path) -> None:
    rules: Any = importlib.import_module("shipped_rules")
    root = str(directory / "state")
    settings = {"parallelism.default": 1, "state.checkpoints.dir": root, "pipeline.progress": "off"}
    env = StreamExecutionEnvironment.on_spark(master, settings)
    doubled: Any = env.from_collection([1, 2, 3]).key_by(lambda number: number).map(rules.doubled)
    told = doubled.map(lambda row: [*row, owner(root), os.getpid()])
    told.sink_to(FileSink(str(directory / "out"))).uid("out")
    env.execute("submitted")
    rows = [json.loads(line) for part in (directory / "out").glob("part-*") for line in part.open()]
    found = {"rows": sorted(rows), "main": list(lineage(os.getpid()))}
    (directory / "unfinished").write_text(json.dumps(found))
    (directory / "unfinished").rename(directory / "found.json")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
