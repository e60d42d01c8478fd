"""Two steps with state of one key: in one chain, since the key does not change, against an exchange by that key between them.

A job of payments in two worker processes, through the public API: the running total of each customer is checked, then the
largest payment of each is noted, and payments are passed on. Both programs differ in one call. Payments are tuples, which
cannot change and are not copied, or objects of a dataclass, which are where a batch holds them. The bars are on CPU
seconds of all processes and on wall time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal

from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.jobs import DiscardingSink
from tidegate.common import Types
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

CUSTOMERS = 10_000
TUPLES, OBJECTS = 2_000_000, 500_000
LIMIT = 1.6
CLOCKS: Final[tuple[Literal["cpu_s", "wall_s"], ...]] = ("cpu_s", "wall_s")


@dataclass
class Payment:
    id: int
    customer: str
    amount: int
    country: str
    paid: bool


def as_object(number: int) -> Payment:
    country = ("DE", "FR", "US")[number % 3]
    return Payment(number, f"customer-{number * 7919 % CUSTOMERS}", number % 13, country, number % 2 == 0)


def as_tuple(number: int) -> tuple[int, str, int]:
    return number, f"customer-{number * 7919 % CUSTOMERS}", number % 13


class Totals(KeyedProcessFunction):
    """Passes payments on and keeps the total of each customer."""

    def __init__(self, amount: Callable[[Any], int]) -> None:
        self.amount = amount

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.total.update(self.total.value() + self.amount(value))
        yield value


class Largest(KeyedProcessFunction):
    """Passes payments on and keeps the largest of each customer."""

    def __init__(self, amount: Callable[[Any], int]) -> None:
        self.amount = amount

    def open(self, runtime_context: RuntimeContext) -> None:
        self.largest = runtime_context.get_state(ValueStateDescriptor("largest", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        amount = self.amount(value)
        if amount > self.largest.value():
            self.largest.update(amount)
        yield value


def build(rounds: int) -> Report:
    cases, bars = list[Case](), list[Bar]()
    for kind, make, count, key in (
        ("tuples", as_tuple, TUPLES, itemgetter(1)),
        ("objects", as_object, OBJECTS, attrgetter("customer")),
    ):
        amount = itemgetter(2) if kind == "tuples" else attrgetter("amount")
        exchange, chain = f"{kind}, with a second exchange", f"{kind}, in one chain"
        for name, stays in ((exchange, False), (chain, True)):
            cases.append(Case(name, partial(run, make, count, key, amount, stays=stays), work=count))
        bars += [Bar(chain, exchange, LIMIT, "of its speed", clock) for clock in CLOCKS]
    rounds = max(5, rounds // 3)
    return compare("two_keyed", cases, bars, rounds=rounds, seconds=None, clock="cpu_s")


def run(
    make: Callable[[int], Any],
    count: int,
    key: Callable[[Any], str],
    amount: Callable[[Any], int],
    *,
    stays: bool,
) -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "embedded",
                "parallelism.default": 2,
                "pipeline.progress": "off",
                "pipeline.id": "benchmark",
                "execution.checkpointing.interval": 1_000,
                "state.checkpoints.dir": root,
            }
        )
        payments = env.from_source(GeneratorSource(make, count, 2))
        totals = payments.key_by(key).process(Totals(amount))
        again = totals.reinterpret_as_keyed_stream(key) if stays else totals.key_by(key)
        again.process(Largest(amount)).sink_to(DiscardingSink())
        env.execute("benchmark")


if __name__ == "__main__":
    main(build)
