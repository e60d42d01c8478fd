"""Each record is a key of its own and sets a timer of both kinds; what fires goes to files."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment

DELAY_MS = 600


class Alarms(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + DELAY_MS)
        timers.register_event_time_timer(value)
        if value % 5 == 0:
            timers.delete_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        kind = "event" if timestamp == ctx.get_current_key() else "processing"
        yield {"id": ctx.get_current_key(), "kind": kind}


def main(directory: str, settings: dict[str, Any], *, count: int, rate: float) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = env.from_source(GeneratorSource(lambda n: n, count=count, splits=2, rate_per_second=rate))
    source.key_by(lambda n: n).process(Alarms()).sink_to(FileSink(directory))
    print(json.dumps(dataclasses.asdict(env.execute("timers"))))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), **json.loads(sys.argv[3]))
