"""Changes values in place that are in state or were emitted already; prints what came out, sorted."""

from __future__ import annotations

import json
import sys
from typing import Any

from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor


class Collecting(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> Any:
        if self.seen.value() is None:
            self.seen.update({"numbers": []})
        seen = self.seen.value()
        seen["numbers"].append(value)  # never handed to update() again
        yield seen
        seen["last"] = value


def main(settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    numbers = env.from_collection(range(40)).set_parallelism(1)
    collected = numbers.key_by(lambda value: value % 4).process(Collecting())
    copied = collected.map(lambda value: {**value, "by": "map"}).union(collected)
    print(json.dumps(sorted(json.dumps(value, sort_keys=True) for value in copied.execute_and_collect())))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
