"""Orders that were not paid within half an hour of event time raise an alert.

An order sets a timer, its payment deletes the timer, and a timer that fires has seen no payment. When the input
ends, event time ends with it, so each timer that is left fires; at its own time, whatever the clock on the wall says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor

PATIENCE_MS = 30 * 60 * 1_000

EVENTS = [
    {"order": 1, "what": "ordered", "minute": 0},
    {"order": 2, "what": "ordered", "minute": 3},
    {"order": 1, "what": "paid", "minute": 12},
    {"order": 3, "what": "ordered", "minute": 15},
    {"order": 3, "what": "paid", "minute": 16},
    {"order": 4, "what": "ordered", "minute": 20},
]


class UnpaidOrders(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.deadline = runtime_context.get_state(ValueStateDescriptor("deadline"))

    def process_element(self, value: dict[str, Any], ctx: Any) -> None:
        timers = ctx.timer_service()
        if value["what"] == "ordered":
            self.deadline.update(value["minute"] * 60_000 + PATIENCE_MS)
            timers.register_event_time_timer(self.deadline.value())
        elif self.deadline.value() is not None:
            timers.delete_event_time_timer(self.deadline.value())
            self.deadline.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        self.deadline.clear()
        yield f"order {ctx.get_current_key()} was not paid by minute {timestamp // 60_000}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    alerts = env.from_collection(EVENTS).key_by(lambda event: event["order"]).process(UnpaidOrders())
    for alert in sorted(alerts.execute_and_collect()):
        print(alert)


if __name__ == "__main__":
    main()
