"""Orders and payments are two streams; what belongs together meets by order number, whichever comes first.

One function sees both, with one state per order. After an hour of event time a timer asks for the other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate import StreamExecutionEnvironment
from tidegate.common import WatermarkStrategy
from tidegate.datastream import KeyedCoProcessFunction, state

ORDERS = [(1, 0, 320), (2, 5, 450), (3, 20, 1_900), (4, 30, 80)]
PAYMENTS = [(2, 1, 450), (1, 10, 320), (4, 45, 70), (5, 50, 999)]
MINUTE_MS = 60_000
PATIENCE_MS = 60 * MINUTE_MS


class Match(KeyedCoProcessFunction):
    ordered = state.Value(int)
    paid = state.Value(int)

    def process_element1(self, value: tuple[int, int, int], ctx: Any) -> Iterator[str]:
        self.ordered.update(value[2])
        yield from self.matched(ctx)

    def process_element2(self, value: tuple[int, int, int], ctx: Any) -> Iterator[str]:
        self.paid.update(value[2])
        yield from self.matched(ctx)

    def matched(self, ctx: Any) -> Iterator[str]:
        ordered, paid = self.ordered.value(), self.paid.value()
        if ordered is None or paid is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + PATIENCE_MS)
        else:
            yield f"order {ctx.get_current_key()}: {paid} of {ordered} cents are paid"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        if self.paid.value() is None:
            yield f"order {ctx.get_current_key()}: not paid within an hour"
        elif self.ordered.value() is None:
            yield f"order {ctx.get_current_key()}: paid, but never ordered"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    times = WatermarkStrategy.for_monotonous_timestamps()
    times = times.with_timestamp_assigner(lambda value, _: value[1] * MINUTE_MS)
    orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(times)
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(times)
    both = orders.connect(payments).key_by(lambda order: order[0], lambda payment: payment[0])
    for line in sorted(both.process(Match()).execute_and_collect()):
        print(line)


if __name__ == "__main__":
    main()
