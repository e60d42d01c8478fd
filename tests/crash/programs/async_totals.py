"""Running totals by an `async def` that waits between reading and writing; settings come from the command line."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state


class Totals(KeyedProcessFunction):
    total = state.Value(int, default=0)

    async def process_element(self, value: Any, ctx: Any) -> AsyncIterator[dict[str, Any]]:
        total = await self.total.async_value() + value["amount"]
        await asyncio.sleep(0.001 * (value["id"] % 5))
        await self.total.async_update(total)
        await asyncio.sleep(0.001 * (value["id"] % 3))
        yield {"id": value["id"], "account": value["account"], "total": total}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "account": f"account-{number * 7919 % 97}", "amount": number % 13}


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    payments = env.from_source(GeneratorSource(payment, count=count, splits=3, rate_per_second=rate))
    paid = payments.filter(lambda payment: payment["amount"] > 0)
    totals = paid.key_by(lambda payment: payment["account"]).process(Totals()).uid("totals")
    totals.sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
