"""The demo's pipeline: payments -> parse -> booked ones -> running totals per account -> files, exactly once.

It does not know that it will be killed. Started again with the same arguments it resumes from its newest checkpoint.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tidegate import registry
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.options import from_assignments
from tidegate.runtime.cli.demo.payments import BRANCHES, Payment, Payments, parse
from tidegate.runtime.stream.environment import StreamExecutionEnvironment
from tidegate.runtime.stream.functions import KeyedProcessFunction, ProcessContext, RuntimeContext

__all__ = ["RunningTotals", "main"]


class RunningTotals(KeyedProcessFunction):
    """Number and sum of the payments of an account, in two value states."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Take hold of the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", default=0))

    def process_element(self, value: Payment, ctx: ProcessContext) -> Iterator[dict[str, Any]]:
        """Add a payment and tell the totals."""
        count, cents = self.count.value() + 1, self.cents.value() + value.cents
        self.count.update(count)
        self.cents.update(cents)
        yield {"id": value.id, "account": value.account, "count": count, "cents": cents}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the pipeline until all payments are in the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="records per second")
    parser.add_argument("--interval-ms", type=int, required=True, help="time between two checkpoints")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any setting")
    asked = parser.parse_args(arguments)
    generator = registry.load("tidegate.connectors", "generator.source")
    files = registry.load("tidegate.connectors", "files.sink")
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "state.backend.type": "rocksdb",
            "state.checkpoints.dir": str(asked.directory / "state"),
            "parallelism.default": len(BRANCHES),
            "pipeline.progress": "json",
            **from_assignments(asked.set).values,
        }
    ).enable_checkpointing(asked.interval_ms)
    payments = generator(Payments(asked.records), asked.records, len(BRANCHES), asked.rate)
    (
        env.from_source(payments, source_name="payments")
        .map(parse)
        .filter(lambda payment: payment.state == "booked")
        .key_by(lambda payment: payment.account)
        .process(RunningTotals())
        .sink_to(files(asked.directory / "output"))
    )
    env.execute("demo")


if __name__ == "__main__":
    main()
