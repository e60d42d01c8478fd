"""Running totals, and behind them in the same chain how many there are of each account; records wait in front of both."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state


class Totals(KeyedProcessFunction):
    total = state.Value(int, default=0)

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        SYSTEM_CLOCK.sleep(self.pause_s)
        self.total.update(self.total.value() + value["amount"])
        yield {"id": value["id"], "account": value["account"], "total": self.total.value()}


class Counts(KeyedProcessFunction):
    count = state.Value(int, default=0)

    def process_element(self, value: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        self.count.update(self.count.value() + 1)
        yield {**value, "count": self.count.value()}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "account": f"account-{number * 7919 % 97}", "amount": number % 13}


def main(directory: str, count: int, rate: float, settings: dict[str, Any], pause_s: float, way: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    payments = env.from_source(GeneratorSource(payment, count=count, splits=3, rate_per_second=rate))
    some = payments.filter(lambda p: p["amount"] > 0)
    totals = some.key_by(lambda p: p["account"]).process(Totals(pause_s)).uid("totals")
    by_account = totals.reinterpret_as_keyed_stream if way == "in place" else totals.key_by
    counts = by_account(lambda t: t["account"]).process(Counts()).uid("counts")
    counts.sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    directory, count, rate, settings, pause_s, way = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings), float(pause_s), way)
