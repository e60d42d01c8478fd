"""Tries a program on a cluster with one Python of executors after the other: `misfits.py master directory python...`.

Says what became of each, in one process, as starting Java takes longer than what is tried.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import TidegateError


def outcome(master: str, directory: Path) -> str:
    """What the program comes to."""
    settings = {
        "state.checkpoints.dir": str(directory / "state"),
        "pipeline.progress": "off",
        "restart-strategy": "none",
    }
    env = StreamExecutionEnvironment.on_spark(master, settings)
    env.from_collection([1, 2, 3]).sink_to(FileSink(str(directory / "out"))).uid("out")
    try:
        return env.execute("misfit").state
    except TidegateError as error:
        return f"{type(error).__name__}: {error}"


def main(master: str, directory: Path, pythons: list[str]) -> None:
    found = []
    for python in pythons:
        os.environ["PYSPARK_PYTHON"] = python
        found.append(outcome(master, directory))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
