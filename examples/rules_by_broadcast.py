"""Payments are checked against limits that change while the program runs.

Limits are a stream as well; each reaches every subtask and is kept there. A payment without a limit waits for it.
"""

from __future__ import annotations

from typing import Any

from tidegate import StreamExecutionEnvironment
from tidegate.datastream import KeyedBroadcastProcessFunction, ListState
from tidegate.datastream.state import ListStateDescriptor, MapStateDescriptor

LIMITS = MapStateDescriptor("limits")
WAITING = ListStateDescriptor("waiting")
Payment = tuple[str, str, int]
PAYMENTS = [("ann", "EUR", 90), ("ann", "EUR", 700), ("bob", "GBP", 400), ("eve", "GBP", 40)]


class Check(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(WAITING)

    def process_element(self, value: Payment, ctx: Any) -> list[str]:
        limit = ctx.get_broadcast_state(LIMITS).get(value[1])
        if limit is not None:
            return above(limit, [value])
        self.waiting.add(value)
        return []

    def process_broadcast_element(self, value: tuple[str, int], ctx: Any) -> list[str]:
        currency, limit = value
        ctx.get_broadcast_state(LIMITS).put(currency, limit)
        alerts: list[str] = []

        def look_again(account: str, waiting: ListState[Payment]) -> None:
            payments = list(waiting.get())
            waiting.update([payment for payment in payments if payment[1] != currency])
            alerts.extend(above(limit, [payment for payment in payments if payment[1] == currency]))

        ctx.apply_to_keyed_state(WAITING, look_again)
        return alerts


def above(limit: int, payments: list[Payment]) -> list[str]:
    large = [payment for payment in payments if payment[2] > limit]
    return [f"{account}: {amount} {currency} is above {limit}" for account, currency, amount in large]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    limits = env.from_collection([("EUR", 500), ("GBP", 300)]).broadcast(LIMITS)
    payments = env.from_collection(PAYMENTS).key_by(lambda payment: payment[0])
    for alert in sorted(payments.connect(limits).process(Check()).execute_and_collect()):
        print(alert)


if __name__ == "__main__":
    main()
