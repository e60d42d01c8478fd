"""Every kind of keyed state, a broadcast map and a list of no key, over a generated stream."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    state,
)

RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
PENDING = ListStateDescriptor("pending", Types.LONG())


class Keep(KeyedBroadcastProcessFunction):
    seen = state.List(int)
    names = state.Map(str, list[int])
    most = state.Reducing(max, int)

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.seen.add(value)
        self.most.add(value)
        if "all" not in self.names:
            self.names.put("all", [])
        # In place, which counts as much as a put.
        items = self.names.get("all")
        assert items is not None
        items.append(value)
        yield {
            "id": value,
            "seen": self.seen.get(),
            "named": self.names.get("all"),
            "most": self.most.get(),
            "rules": len(ctx.get_broadcast_state(RULES).keys()),
        }

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, value)


class Pairs(FlatMapFunction, CheckpointedFunction):
    """Holds every other record back until the next one comes."""

    def initialize_state(self, context: Any) -> None:
        self.stored = context.get_operator_state_store().get_list_state(PENDING)
        self.pending = self.stored.get()

    def flat_map(self, value: int) -> Iterator[int]:
        self.pending.append(value)
        if len(self.pending) > 1:
            yield from self.pending
            self.pending.clear()

    def snapshot_state(self, context: Any) -> None:
        self.stored.update(self.pending)


def main(directory: str, settings: dict[str, Any], count: int, rate: float | None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    rules = env.from_collection([1, 2, 3]).uid("rules").broadcast(RULES)
    numbers = env.from_source(GeneratorSource(int, count=count, splits=2, rate_per_second=rate)).uid(
        "numbers"
    )
    paired = numbers.global_().flat_map(Pairs()).uid("pairs").set_parallelism(1)
    kept = paired.key_by(lambda number: number % 7).connect(rules).process(Keep()).uid("keep")
    kept.map(json.dumps).uid("text").sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("states"))))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), *json.loads(sys.argv[3]))
