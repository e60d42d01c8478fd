"""Running totals that a function keeps by itself and writes as bytes; settings come from the command line."""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import CheckpointedFunction, KeyedProcessFunction, StreamExecutionEnvironment


class Totals(KeyedProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        self.totals: dict[str, int] = {}
        for _, stream in context.get_raw_keyed_state_inputs():
            self.totals |= pickle.load(stream)

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        total = self.totals[value["account"]] = self.totals.get(value["account"], 0) + value["amount"]
        yield {"id": value["id"], "account": value["account"], "total": total}

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_keyed_operator_state_output()
        by_group: dict[int, dict[str, int]] = {}
        for account, total in self.totals.items():
            by_group.setdefault(output.key_group_of(account), {})[account] = total
        for group, totals in by_group.items():
            output.start_new_key_group(group)
            pickle.dump(totals, output)


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
