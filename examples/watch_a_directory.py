"""Orders arrive as files while the job runs, and each is counted once, also over a restart.

Whoever writes a file gives it its name when it is complete: what begins with a dot is not read. The names of all files that
were seen are part of every checkpoint, so the second start reads only what came meanwhile.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tidegate import FileSink, StreamExecutionEnvironment
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import JsonFormat, JsonLines, RecordFileSource


def deliver(inbox: Path, name: str, orders: list[dict[str, Any]]) -> None:
    """Write a file that appears as a whole."""
    hidden = inbox / f".{name}"
    hidden.write_text("".join(f"{json.dumps(order)}\n" for order in orders))
    hidden.rename(inbox / name)


def taken(outbox: Path) -> list[int]:
    """The orders that are in the output."""
    lines = [line for file in outbox.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


def run(place: Path, until: int) -> None:
    """Start the job, and stop it when so many orders are in the output."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {"state.checkpoints.dir": str(place / "state")}
    )
    env.set_parallelism(2).enable_checkpointing(200)
    orders = env.from_source(RecordFileSource(str(place / "inbox"), JsonFormat(), watch_ms=100))
    large = orders.filter(lambda order: order["cents"] >= 100)
    large.sink_to(FileSink(place / "outbox", JsonLines()))
    job = env.execute_async("large orders")
    while len(taken(place / "outbox")) < until:
        SYSTEM_CLOCK.sleep(0.05)
    job.stop().result()


def main(place: Path) -> None:
    (place / "inbox").mkdir()
    deliver(place / "inbox", "monday.jsonl", [{"id": n, "cents": 50 * n} for n in range(4)])
    run(place, until=2)
    print(f"after monday: {taken(place / 'outbox')}")
    deliver(place / "inbox", "tuesday.jsonl", [{"id": n, "cents": 50 * n} for n in range(4, 7)])
    run(place, until=5)
    print(f"after tuesday: {taken(place / 'outbox')}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
