"""What editors know about the records of a stream behind each step; checked, never run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

from tidegate.common import Duration, Types
from tidegate.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowedStream,
    WindowFunction,
)
from tidegate.datastream.window import TimeWindow, TumblingEventTimeWindows


@dataclass(frozen=True)
class Payment:
    user: str
    cents: int


def parse(line: str) -> Payment:
    user, cents = line.split(",")
    return Payment(user, int(cents))


def add(first: Payment, second: Payment) -> Payment:
    return Payment(first.user, first.cents + second.cents)


class Parse(MapFunction):
    def map(self, value: str) -> Payment:
        return parse(value)


class Large(FilterFunction):
    def filter(self, value: Payment) -> bool:
        return value.cents > 100


class Users(FlatMapFunction):
    def flat_map(self, value: Payment) -> Iterator[str]:
        yield value.user


class ByUser(KeySelector):
    def get_key(self, value: Payment) -> str:
        return value.user


class Add(ReduceFunction):
    def reduce(self, value1: Payment, value2: Payment) -> Payment:
        return add(value1, value2)


class Count(KeyedProcessFunction):
    def process_element(self, value: Payment, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        yield value.user, 1


class Stamp(ProcessFunction):
    def process_element(self, value: Payment, ctx: ProcessFunction.Context) -> Iterator[int | None]:
        yield ctx.timestamp()


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Payment, accumulator: int) -> int:
        return accumulator + value.cents

    def get_result(self, accumulator: int) -> float:
        return accumulator / 100

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Span(ProcessWindowFunction[Payment, tuple[str, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Payment]
    ) -> Iterable[tuple[str, int]]:
        assert_type(context.window(), TimeWindow)
        return [(key, context.window().end)]


class Names(WindowFunction[Payment, str, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Payment]) -> Iterable[str]:
        return [key]


class Either(CoMapFunction):
    def map1(self, value: Payment) -> str:
        return value.user

    def map2(self, value: int) -> str:
        return str(value)


class LookUp(AsyncFunction[Payment, bytes]):
    async def async_invoke(self, value: Payment) -> list[bytes]:
        return [value.user.encode()]


def test_sources_say_what_they_read(env: StreamExecutionEnvironment) -> None:
    assert_type(env.from_collection(["ada,1"]), DataStream[str])
    assert_type(env.read_text_file("in"), DataStream[str])
    assert_type(env.socket_text_stream("localhost", 9000), DataStream[str])
    assert_type(env.from_collection([(1, "ada")], Types.ROW([Types.INT(), Types.STRING()])), DataStream[Any])


def test_functions_say_what_they_make(lines: DataStream[str]) -> None:
    payments = lines.map(parse)
    assert_type(payments, DataStream[Payment])
    assert_type(lines.map(Parse()), DataStream[Payment])
    assert_type(payments.map(lambda payment: payment.cents), DataStream[int])
    assert_type(payments.filter(lambda payment: payment.cents > 100), DataStream[Payment])
    assert_type(payments.filter(Large()), DataStream[Payment])
    assert_type(payments.flat_map(Users()), DataStream[str])
    assert_type(lines.flat_map(lambda line: line.split()), DataStream[str])
    assert_type(payments.process(Stamp()), DataStream[int | None])
    assert_type(payments.rebalance().union(payments).name("all"), DataStream[Payment])
    lines.map(add)  # type: ignore[arg-type] # it takes two records


def test_keys_are_known(payments: DataStream[Payment]) -> None:
    keyed = payments.key_by(lambda payment: payment.user)
    assert_type(keyed, KeyedStream[Payment, str])
    assert_type(payments.key_by(ByUser()), KeyedStream[Payment, str])
    assert_type(payments.key_by("user"), KeyedStream[Payment])
    assert_type(keyed.reduce(add), DataStream[Payment])
    assert_type(keyed.reduce(Add()), DataStream[Payment])
    assert_type(keyed.max("cents"), DataStream[Payment])
    assert_type(keyed.process(Count()), DataStream[tuple[str, int]])


def test_windows_say_what_comes_of_them(keyed: KeyedStream[Payment, str]) -> None:
    windowed = keyed.window(TumblingEventTimeWindows.of(Duration.of_seconds(5)))
    assert_type(windowed, WindowedStream[Payment])
    assert_type(windowed.reduce(add), DataStream[Payment])
    assert_type(windowed.reduce(add, Span()), DataStream[tuple[str, int]])
    assert_type(windowed.aggregate(Total()), DataStream[float])
    assert_type(windowed.aggregate(Total(), Span()), DataStream[tuple[str, int]])
    assert_type(windowed.process(Span()), DataStream[tuple[str, int]])
    assert_type(windowed.apply(Names()), DataStream[str])
    assert_type(windowed.sum("cents"), DataStream[Payment])


def test_two_streams_and_requests(payments: DataStream[Payment], numbers: DataStream[int]) -> None:
    assert_type(payments.connect(numbers).map(Either()), DataStream[str])
    found = AsyncDataStream.unordered_wait(payments, LookUp(), Duration.of_seconds(5))
    assert_type(found, DataStream[bytes])


def test_collected_records_have_the_type_of_the_stream(payments: DataStream[Payment]) -> None:
    for payment in payments.execute_and_collect():
        assert_type(payment, Payment)
    assert_type(payments.execute_and_collect(limit=2), list[Payment])


def test_a_stream_that_nobody_describes_is_open(stream: DataStream) -> None:
    assert_type(stream, DataStream[Any])
    assert_type(stream.map(parse), DataStream[Payment])
