"""Totals of a bounded input as a batch job of three stages; settings come from the command line."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def payment(number: int) -> tuple[str, int, int]:
    return f"account-{number * 7919 % 97}", number % 13, 1


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    payments = env.from_source(GeneratorSource(payment, count=count, splits=3, rate_per_second=rate))
    totals = payments.key_by(lambda paid: paid[0]).reduce(
        lambda one, two: (one[0], one[1] + two[1], one[2] + two[2])
    )
    rows = totals.rebalance().map(
        lambda total: {"account": total[0], "total": total[1], "payments": total[2]}
    )
    rows.sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
