"""What reductions, folds and windows keep has the type of the stream, where a program says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.written import FailOnce, Halting
from tidegate.common import Duration, Row, Types, WatermarkStrategy
from tidegate.datastream import (
    DataStream,
    KeyedStream,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import CountEvictor, TumblingEventTimeWindows
from tidegate.errors import RecordError
from tidegate.testing.harness import Harness

COUNT, FATAL = 300, 200
EVEN = sum(range(0, COUNT, 2))
SECOND = TumblingEventTimeWindows.of(Duration.of_seconds(1))
RESTARTS = {"restart-strategy.fixed-delay.attempts": 1, "restart-strategy.fixed-delay.delay": "10 ms"}
PAIR = Types.ROW_NAMED(["key", "amount"], [Types.LONG(), Types.LONG()])


@dataclass(frozen=True)
class Order:
    """A record that cannot be pickled, so that state without its type could not hold it."""

    customer: int
    amount: int

    def __reduce__(self) -> Any:
        raise TypeError("an order was pickled")


def order(number: int) -> Order:
    return Order(number % 2, number)


def added(one: Order, other: Order) -> Order:
    return Order(one.customer, one.amount + other.amount)


def counted(so_far: tuple[int, Order | None], one: Order) -> tuple[int, Order | None]:
    return so_far[0] + 1, one if so_far[1] is None else added(so_far[1], one)


STEPS: dict[str, Callable[[KeyedStream[Order]], DataStream[Order]]] = {
    "reduce": lambda keyed: keyed.reduce(added),
    "sum": lambda keyed: keyed.sum("amount"),
    "min_by": lambda keyed: keyed.min_by("amount"),
    "window reduce": lambda keyed: keyed.window(SECOND).reduce(added),
    "window max_by": lambda keyed: keyed.window(SECOND).max_by("amount"),
    "window of all": lambda keyed: keyed.window(SECOND).apply(
        lambda key, window, orders: [Order(key, sum(each.amount for each in orders))]
    ),
    "evicted window": lambda keyed: keyed.window(SECOND).evictor(CountEvictor.of(1)).reduce(added),
}


@pytest.mark.parametrize("step", ["reduce", "sum", "min_by", "window reduce"])
def test_records_of_a_class_stay_what_they_are_in_the_state_a_failed_job_goes_on_with(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, step: str
) -> None:
    anywhere.enable_checkpointing(50).configure(RESTARTS)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    source = Halting(int, COUNT, halt=FATAL // 2)
    numbers = anywhere.from_source(source, times, "numbers", Types.LONG()).set_parallelism(1)
    failing = numbers.map(FailOnce(FATAL, tmp_path / "failed", tmp_path / "resumed")).set_parallelism(1)
    orders = STEPS[step](
        failing.map(order).set_parallelism(1).key_by(lambda each: each.customer, Types.LONG())
    )

    found = list(orders.map(lambda each: (each.customer, each.amount)).execute_and_collect())

    each_once = {(0, 0), (1, 1)} if step == "min_by" else {(0, EVEN), (1, EVEN + COUNT // 2)}
    assert each_once <= set(found)
    assert len(found) == (2 if step == "window reduce" else COUNT)
    assert 0 < int((tmp_path / "resumed").read_text()) <= FATAL


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("reduce", [(1, 9)]),
        ("min_by", [(1, 1)]),
        ("window max_by", [(1, 5)]),
        ("window of all", [(1, 9)]),
        ("evicted window", [(1, 5)]),
    ],
)
def test_what_is_restored_goes_on_at_another_parallelism(step: str, expected: list[tuple[int, int]]) -> None:
    def build(stream: DataStream[int]) -> DataStream[tuple[int, int]]:
        orders = STEPS[step](stream.map(order).key_by(lambda each: each.customer, Types.LONG()))
        return orders.map(lambda each: (each.customer, each.amount))

    with Harness(build) as before:
        before.push(1, timestamp=1)
        before.push(3, timestamp=3)
        taken = before.snapshot()
    with Harness(build, parallelism=2, restored=taken) as after:
        after.push(5, timestamp=5)
        after.watermark(999)
        assert after.take() == expected


def test_folds_keep_what_their_function_says_it_returns() -> None:
    def build(stream: DataStream[int]) -> DataStream[int]:
        orders = stream.map(order).key_by(lambda each: each.customer, Types.LONG())
        with pytest.warns(DeprecationWarning, match="fold"):
            running = orders.fold((0, None), counted)
        return running.map(lambda pair: pair[1].amount).union(
            orders.window(SECOND).fold((0, None), counted).map(lambda pair: -pair[0])
        )

    with Harness(build) as before:
        before.push(1, timestamp=1)
        taken = before.snapshot()
    with Harness(build, restored=taken) as after:
        after.push(3, timestamp=3)
        after.watermark(999)
        assert sorted(after.take()) == [-2, 4]


def test_rows_that_a_reduction_answers_as_tuples_are_kept_as_rows() -> None:
    def total(one: Row, other: Row) -> tuple[int, int]:
        return one.key, one.amount + other.amount

    def build(stream: DataStream[int]) -> DataStream[int]:
        pairs = stream.map(lambda number: (number % 2, number), PAIR).key_by(lambda pair: pair.key)
        sums = [pairs.reduce(total), pairs.window(SECOND).reduce(total)]
        return sums[0].union(sums[1]).map(lambda pair: pair.amount)

    with Harness(build) as harness:
        for number in (1, 3, 5):
            harness.push(number, timestamp=number)
        harness.snapshot()
        harness.watermark(999)
        assert sorted(harness.take()) == [1, 4, 9, 9]


@pytest.mark.parametrize(
    ("build", "state"),
    [
        (lambda keyed: keyed.reduce(lambda one, other: str(other)), "reduced"),
        (lambda keyed: keyed.window(SECOND).reduce(lambda one, other: str(other)), "window:folded"),
    ],
    ids=["reduce", "window"],
)
def test_a_result_that_is_not_of_the_type_is_refused_by_the_name_of_its_state(
    build: Callable[[KeyedStream[Order]], DataStream[Order]], state: str
) -> None:
    with Harness(lambda stream: build(stream.map(order).key_by(lambda each: each.customer))) as harness:
        harness.push(1, timestamp=1)
        with pytest.raises(RecordError, match="Order") as refused:
            harness.push(3, timestamp=3)
    assert any(f"while updating state '{state}'" in note for note in told(refused.value))


def told(error: BaseException | None) -> list[str]:
    """What an error and those behind it were noted to be about."""
    return [] if error is None else [*getattr(error, "__notes__", ()), *told(error.__cause__)]
