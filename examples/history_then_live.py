"""Orders of the past from files, and then those that come in, as one stream: live begins where the archive ends.

The archive is made on the first run. A job that fails resumes from its last checkpoint, in either part.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.connectors.files import FileSink, JsonFormat, RecordFileSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.hybrid import HybridSource
from tidegate.datastream import StreamExecutionEnvironment

ARCHIVE = Path("archive")


def make_archive() -> None:
    """Two days of orders."""
    ARCHIVE.mkdir(exist_ok=True)
    for day in range(2):
        orders = [{"id": day * 500 + number, "from": "archive"} for number in range(500)]
        (ARCHIVE / f"day-{day}.jsonl").write_text("".join(f"{json.dumps(order)}\n" for order in orders))


def live(newest_file_ms: int) -> GeneratorSource[dict[str, Any]]:
    """What comes in after the newest file; a topic would be read from that time on."""
    return GeneratorSource(lambda n: {"id": 1_000 + n, "from": "live", "at": newest_file_ms + n}, count=200)


if not ARCHIVE.exists():
    make_archive()
env = StreamExecutionEnvironment.get_execution_environment()
orders = HybridSource((RecordFileSource(str(ARCHIVE), JsonFormat()), live))
env.from_source(orders, source_name="orders").sink_to(FileSink("orders"))
print(env.execute("history, then live"))
