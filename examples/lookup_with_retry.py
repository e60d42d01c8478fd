"""Orders are enriched with prices from a service that answers slowly and, now and then, not at all.

Up to 20 questions are under way at once and none of them blocks a worker. A question that fails is asked again, later
each time; an order whose price is still not known after ten seconds is emitted without one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tidegate import StreamExecutionEnvironment
from tidegate.common import Duration
from tidegate.datastream import AsyncDataStream, AsyncFunction
from tidegate.datastream.async_retry_predicates import has_exception_predicate
from tidegate.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

Order = dict[str, Any]
CENTS = {"tea": 320, "jam": 450, "pot": 1_900}
ORDERS = [{"order": number, "thing": ("tea", "jam", "pot")[number % 3]} for number in range(1, 10)]


class Prices:
    """The service: every third question finds it busy."""

    def __init__(self) -> None:
        self.asked = 0

    async def cents(self, thing: str) -> int:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.asked % 3 == 0:
            raise ConnectionError("busy, come again")
        return CENTS[thing]


class WithPrice(AsyncFunction):
    def open(self, runtime_context: Any) -> None:
        self.prices = Prices()

    async def async_invoke(self, value: Order) -> list[Order]:
        return [{**value, "cents": await self.prices.cents(value["thing"])}]

    def timeout(self, value: Order) -> list[Order]:
        return [{**value, "cents": None}]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    retry = ExponentialBackoffDelayRetryStrategy(5, 20, 500, 2.0, None, has_exception_predicate)
    priced = AsyncDataStream.unordered_wait_with_retry(
        env.from_collection(ORDERS), WithPrice(), Duration.of_seconds(10), retry, capacity=20
    )
    for order in sorted(priced.execute_and_collect(), key=lambda order: order["order"]):
        print(f"order {order['order']}: {order['thing']} for {order['cents']} cents")


if __name__ == "__main__":
    main()
