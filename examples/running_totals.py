"""Ten seconds of payments -> totals per account in RocksDB -> files, exactly once.

Kill it with `kill -9`, or press Ctrl-C, and start it again: it resumes from its newest checkpoint, and at the end
each payment is in `payments-out/` once. `python running_totals.py 500` makes fewer payments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from tidegate import (
    FileSink,
    GeneratorSource,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class RunningTotals(KeyedProcessFunction):
    """Number and sum of an account's payments. All value states of a function are one look-up."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", default=0))

    def process_element(self, value: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        self.count.update(self.count.value() + 1)
        self.cents.update(self.cents.value() + value["cents"])
        yield {**value, "count": self.count.value(), "total": self.cents.value()}


def payment(number: int) -> dict[str, Any]:
    """Payment number so-and-so: always the same one, so that a restart can read it again."""
    return {"id": number, "account": f"account-{number * 31 % 97}", "cents": number * 17 % 1000}


def main(records: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"state.backend.type": "rocksdb"})
    env.set_parallelism(2).enable_checkpointing(1_000)
    payments = env.from_source(
        GeneratorSource(payment, records, splits=2, rate_per_second=5_000), source_name="payments"
    )
    payments.key_by(lambda p: p["account"]).process(RunningTotals()).sink_to(FileSink("payments-out"))
    result = env.execute("payments")
    began = f"from checkpoint {result.resumed_from}" if result.resumed_from else "from the start"
    print(f"{result.state} {began}: read {result.records:,} payments in {result.seconds:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
