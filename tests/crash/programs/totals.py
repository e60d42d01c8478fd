"""Running totals over a generated stream, the program that crash tests kill; settings come from the command line."""

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
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.runtime.result import JobResult


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        self.total.update(self.total.value() + value["amount"])
        yield {"id": value["id"], "account": value["account"], "total": self.total.value()}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "account": f"account-{number * 7919 % 97}", "amount": number % 13}


def main(
    directory: str, count: int, rate: float, settings: dict[str, Any], savepoints: str | None = None
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(payment, count=count, splits=3, rate_per_second=rate)
    totals = (
        env.from_source(source)
        .filter(lambda p: p["amount"] > 0)
        .key_by(lambda p: p["account"])
        .process(Totals())
    )
    totals.sink_to(FileSink(directory)).uid("files")
    result = env.execute("totals") if savepoints is None else with_savepoints(env, savepoints)
    print(json.dumps(dataclasses.asdict(result)))


def with_savepoints(env: StreamExecutionEnvironment, savepoints: str) -> JobResult:
    """Take two savepoints on the way."""
    client = env.execute_async("totals")
    for _ in range(2):
        client.trigger_savepoint(savepoints).result()
    return client.get_job_execution_result().result()


if __name__ == "__main__":
    directory, count, rate, settings, *savepoints = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings), *savepoints)
