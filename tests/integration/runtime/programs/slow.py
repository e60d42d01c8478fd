"""A collection, and a function of some milliseconds for a record: behind its source, an exchange, or two of them."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment


def main(directory: str, settings: dict[str, Any], *, seconds: float, exchanges: int) -> None:
    def slowly(value: int) -> dict[str, int]:
        SYSTEM_CLOCK.sleep(seconds)
        return {"number": value}

    env = StreamExecutionEnvironment.get_execution_environment(settings)
    stream = env.from_collection(list(range(300_000))).uid("numbers")
    if exchanges == 2:
        stream = stream.rebalance().map(lambda value: value).uid("passed")
    if exchanges:
        stream = stream.key_by(lambda value: value % 100)
    stream.map(slowly).uid("slow").sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("slow"))))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), **json.loads(sys.argv[3]))
