"""A Spark session for a benchmark that stays for all of it, with the settings of tidegate or as Spark is delivered."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.runtime.spark.session import settings_for

__all__ = ["MASTER", "begun", "gaps_s", "serve", "session"]

MASTER = "local[2]"


def session(settings: str, conf: dict[str, str] | None = None) -> SparkSession:
    """The session of a user who has one: `ours` with what tidegate would set, `stock` without."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.memory": "2g",
        **(settings_for(MASTER, preload=True) if settings == "ours" else {}),
        **(conf or {}),
    }
    builder = SparkSession.builder.master(MASTER).appName("benchmark")  # pyright: ignore[reportAttributeAccessIssue]  # of the classic one
    for key, value in chosen.items():
        builder = builder.config(key, value)
    found: SparkSession = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer lines of JSON by lines of JSON until the input ends; what the system prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")


def begun(events: Path) -> list[float]:
    """When the epochs of a run have begun, from its event log."""
    try:
        lines = events.read_text().splitlines()
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [
        datetime.fromisoformat(event["at"]).timestamp() for event in found if event["what"] == "triggered"
    ]


def gaps_s(moments: list[float], first: int, count: int) -> list[float]:
    """Seconds from one moment to the next, of `count` epochs from `first` on."""
    return [later - earlier for earlier, later in pairwise(moments[first : first + count + 1])]
