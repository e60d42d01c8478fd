"""Running totals per account over a generated stream; who computed each is part of the record."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import Any

from tidegate.common import Types
from tidegate.connectors.files import FileSink, FileSinkOptions
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + value["amount"])
        yield {**value, "total": self.total.value(), "pid": os.getpid()}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "account": f"account-{number % 37}", "amount": number % 13}


def main(directory: str, settings: dict[str, Any], *, count: int, rate: float | None, on_branch: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_source(GeneratorSource(payment, count=count, splits=3, rate_per_second=rate)).uid(
        "payments"
    ).filter(lambda value: value["amount"] > 0).uid("positive").key_by(
        lambda value: value["account"]
    ).process(Totals()).uid("totals").sink_to(
        FileSink(directory, options=FileSinkOptions(on_branch=on_branch))
    ).uid("files")
    print(json.dumps({**dataclasses.asdict(env.execute("totals")), "pid": os.getpid()}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), **json.loads(sys.argv[3]))
