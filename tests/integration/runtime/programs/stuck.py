"""Never gets past one record, so that no checkpoint can ever be complete."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment


def stop_at_one(number: int) -> int:
    if number == 1:
        threading.Event().wait()
    return number


def main(directory: str, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_source(GeneratorSource(lambda n: n, count=1_000, splits=1)).map(stop_at_one).sink_to(
        FileSink(directory)
    )
    env.execute("stuck")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
