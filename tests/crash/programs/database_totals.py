"""The running totals into a database: every total as a row that is added, and the newest of each account as one that is updated."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any, Literal

from tidegate.common import Types
from tidegate.connectors.database import Database, DatabaseSink, DatabaseSinkOptions
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, str, int]]:
        self.total.update(self.total.value() + value["amount"])
        yield value["id"], value["account"], self.total.value()


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "account": f"account-{number * 7919 % 97}", "amount": number % 13}


def main(
    _: str,
    count: int,
    rate: float,
    settings: dict[str, Any],
    url: str,
    schema: str,
    mode: Literal["staged", "prepared"],
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(payment, count=count, splits=3, rate_per_second=rate or None)
    payments = env.from_source(source).filter(lambda each: each["amount"] > 0)
    totals = payments.key_by(lambda each: each["account"]).process(Totals())
    database = Database(url)
    rows = DatabaseSink(database, f"{schema}.totals", options=DatabaseSinkOptions(mode=mode))
    totals.sink_to(rows).uid("rows")
    totals.map(lambda row: row[1:]).sink_to(DatabaseSink(database, f"{schema}.newest", key=("account",))).uid(
        "newest"
    )
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    directory, count, rate, settings, *more = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings), *more)  # type: ignore[arg-type] # told by its caller
