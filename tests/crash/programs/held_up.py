"""Running totals in front of a step that is slower than the source, so that records wait on every exchange."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", default=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        self.total.update(self.total.value() + value["amount"])
        yield {"id": value["id"], "account": value["account"], "total": self.total.value()}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "account": f"account-{number * 7919 % 97}", "amount": number % 13}


def main(directory: str, count: int, rate: float, settings: dict[str, Any], pause_s: float) -> None:
    def dawdle(total: dict[str, Any]) -> dict[str, Any]:
        SYSTEM_CLOCK.sleep(pause_s)
        return total

    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(payment, count=count, splits=3, rate_per_second=rate)
    payments = env.from_source(source).rebalance().filter(lambda p: p["amount"] > 0).uid("some")
    totals = payments.key_by(lambda p: p["account"]).process(Totals()).uid("totals")
    totals.rebalance().map(dawdle).uid("slow").sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    directory, count, rate, settings, pause_s = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings), float(pause_s))
