"""Every kind of state of user functions, asked for or declared, on each executor and with each backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tidegate.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CoMapFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    state,
)
from tidegate.errors import ConfigError, TidegateError
from tidegate.testing.harness import Harness
from tidegate.types import Types

EVENTS = [("a", 3), ("b", 10), ("a", 1), ("a", 2), ("b", 20)]


class Mean(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [one + other for one, other in zip(acc_a, acc_b, strict=True)]


class AllKinds(KeyedProcessFunction):
    """Asks for one state of each kind."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.LONG(), Types.LONG()))
        self.order = runtime_context.get_ordered_map_state(
            OrderedMapStateDescriptor("order", Types.LONG(), Types.LONG())
        )
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.LIST(Types.LONG()))
        )

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        return note(self, *value)


class Declared(KeyedProcessFunction):
    """Declares the same as attributes."""

    count = state.Value(int, default=0)
    seen = state.List(int)
    times = state.Map(int, int)
    order = state.OrderedMap(int, int)
    most = state.Reducing(max, int)
    mean = state.Aggregating(Mean(), list[int])

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        return note(self, *value)


def note(states: Any, key: str, number: int) -> Iterator[Any]:
    states.count.update(states.count.value() + 1)
    states.seen.add(number)
    states.times.put(number, states.count.value())
    states.order.put(number, states.count.value())
    states.most.add(number)
    states.mean.add(number)
    yield (
        key,
        states.count.value(),
        states.seen.get(),
        dict(states.times.items()),
        list(states.order.range(2)),
        states.most.get(),
        states.mean.get(),
    )


EXPECTED = [
    ("a", 1, [3], {3: 1}, [(3, 1)], 3, 3.0),
    ("a", 2, [3, 1], {3: 1, 1: 2}, [(3, 1)], 3, 2.0),
    ("a", 3, [3, 1, 2], {3: 1, 1: 2, 2: 3}, [(2, 3), (3, 1)], 3, 2.0),
    ("b", 1, [10], {10: 1}, [(10, 1)], 10, 10.0),
    ("b", 2, [10, 20], {10: 1, 20: 2}, [(10, 1), (20, 2)], 20, 15.0),
]


def first(pair: tuple[Any, ...]) -> Any:
    return pair[0]


def in_order(env: StreamExecutionEnvironment, records: list[Any]) -> DataStream:
    """Read by one subtask, so that the records of a key come in the order given."""
    return env.from_collection(records).set_parallelism(1)


@pytest.fixture(params=["heap", "filesystem", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.spec("003/ST-06", "003/ST-07", "003/ST-08")
@pytest.mark.parametrize("function", [AllKinds(), Declared()], ids=["asked for", "declared"])
def test_every_kind_of_state_belongs_to_its_key(
    anywhere: StreamExecutionEnvironment, function: KeyedProcessFunction
) -> None:
    found = in_order(anywhere, EVENTS).key_by(first).process(function).execute_and_collect()

    assert sorted(found, key=lambda row: row[:2]) == EXPECTED


def test_every_kind_of_state_is_restored_at_another_parallelism(backend: str) -> None:
    def build(stream: Any) -> Any:
        return stream.key_by(first).process(Declared())

    with Harness(build, parallelism=2, backend=backend) as before:
        for event in EVENTS[:3]:
            before.push(event)
        taken = before.snapshot()
        rows = before.take()
        before.push(("a", 99))
    for parallelism in (1, 3):
        with Harness(build, parallelism=parallelism, backend=backend, restored=taken) as after:
            for event in EVENTS[3:]:
                after.push(event)
            assert sorted(rows + after.take(), key=lambda row: row[:2]) == EXPECTED
            assert after.state("b", ValueStateDescriptor("count", Types.LONG(), 0)).value() == 2


def test_elements_and_entries_changed_in_place_count(backend: str) -> None:
    class Grow(KeyedProcessFunction):
        table: state.Map[str, Any] = state.Map(str)
        rows: state.List[list[str]] = state.List()

        def process_element(self, value: str, ctx: Any) -> None:
            if "x" not in self.table:
                self.table.put("x", [])
                self.rows.add([])
            for names in self.table.values():
                names.append(value)
            self.rows.get()[0].append(value)

    def build(stream: Any) -> Any:
        return stream.key_by(lambda value: 0).process(Grow())

    with Harness(build, backend=backend) as before:
        before.push("a")
        before.snapshot()
        before.push("b")
        taken = before.snapshot()
    with Harness(build, backend=backend, restored=taken) as after:
        assert after.state(0, MapStateDescriptor("table", Types.STRING())).get("x") == ["a", "b"]
        assert after.state(0, ListStateDescriptor("rows")).get() == [["a", "b"]]


@pytest.mark.spec("002/AX-34")
def test_an_average_over_two_leaves_the_rest_in_state(anywhere: StreamExecutionEnvironment) -> None:
    class CountWindowAverage(FlatMapFunction):
        def open(self, runtime_context: Any) -> None:
            self.sum = runtime_context.get_state(ValueStateDescriptor("average"))

        def flat_map(self, value: tuple[int, int]) -> Iterable[tuple[int, float]]:
            count, total = self.sum.value() or (0, 0)
            count, total = count + 1, total + value[1]
            self.sum.update((count, total))
            if count >= 2:
                self.sum.clear()
                yield value[0], total / count

    given = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]
    averages = in_order(anywhere, given)
    found = averages.key_by(first).flat_map(CountWindowAverage()).execute_and_collect()

    assert sorted(found) == [(1, 4), (1, 5.5)]
    with Harness(lambda stream: stream.key_by(first).flat_map(CountWindowAverage())) as harness:
        for pair in given:
            harness.push(pair)
        assert harness.take() == [(1, 4), (1, 5.5)]
        assert harness.state(1, ValueStateDescriptor("average")).value() == (1, 2)


@pytest.mark.spec("002/AX-39", "003/ST-02")
def test_a_map_with_state_returns_what_was_before(anywhere: StreamExecutionEnvironment) -> None:
    class Before(MapFunction):
        total = state.Value(int, default=0)

        def map(self, value: tuple[str, int]) -> tuple[str, int]:
            before = self.total.value()
            self.total.update(before + value[1])
            return value[0], before

    given = [("a", 1), ("a", 2), ("a", 3)]
    found = in_order(anywhere, given).key_by(first).map(Before()).execute_and_collect()

    assert sorted(found) == [("a", 0), ("a", 1), ("a", 3)]
    with Harness(lambda stream: stream.key_by(first).map(Before())) as harness:
        for pair in given:
            harness.push(pair)
        assert harness.state("a", ValueStateDescriptor("total", Types.LONG(), 0)).value() == 6


@pytest.mark.spec("003/EX-38", "003/ST-14")
def test_a_value_is_emitted_only_if_it_is_larger_than_the_one_before(
    anywhere: StreamExecutionEnvironment,
) -> None:
    class Larger(FilterFunction):
        last = state.Value(int)

        def filter(self, value: tuple[str, int]) -> bool:
            last = self.last.value()
            self.last.update(value[1])
            return last is None or value[1] > last

    given = [("a", 1), ("a", 5), ("a", 3), ("a", 4), ("b", 2), ("b", 2)]
    events = in_order(anywhere, given)
    stateful = sorted(events.key_by(first).filter(Larger()).execute_and_collect())

    assert stateful == [("a", 1), ("a", 4), ("a", 5), ("b", 2)]
    assert sorted(events.map(lambda event: event).execute_and_collect()) == sorted(given)


@pytest.mark.spec("000/EX-12")
def test_both_functions_of_a_connected_map_share_one_count(anywhere: StreamExecutionEnvironment) -> None:
    class Share(CoMapFunction):
        count = state.Value(int, default=0)

        def _next(self, value: str) -> tuple[str, int]:
            self.count.update(self.count.value() + 1)
            return value, self.count.value()

        def map1(self, value: str) -> tuple[str, int]:
            return self._next(value)

        def map2(self, value: str) -> tuple[str, int]:
            return self._next(value)

    one, other = anywhere.from_collection(["x", "x", "y"]), anywhere.from_collection(["x", "y"])
    counted = one.connect(other).key_by(str, str).map(Share()).set_parallelism(2).execute_and_collect()

    assert sorted(counted) == [("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2)]


def test_a_wrong_descriptor_is_refused(anywhere: StreamExecutionEnvironment) -> None:
    class Wrong(MapFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_map_state(ListStateDescriptor("x"))

        def map(self, value: int) -> int:
            return value

    program = anywhere.from_collection([1]).key_by(str).map(Wrong())
    with pytest.raises(
        TidegateError, match="get_map_state takes a MapStateDescriptor; got ListStateDescriptor"
    ):
        list(program.execute_and_collect())


def test_declared_state_without_a_key_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="operator 'process' declares state 'count' but its input has no key; use key_by"
    ):
        Harness(lambda stream: stream.map(Counting()).name("process"))


def test_declared_state_is_refused_before_it_is_open() -> None:
    with pytest.raises(ConfigError, match="state 'count' of Counting is used before the function is opened"):
        Counting().map(1)
    assert isinstance(Counting.count, state.Value)


class Counting(MapFunction):
    count = state.Value(int, default=0)

    def map(self, value: int) -> int:
        return self.count.value()


@pytest.mark.parametrize("name", ["", None])
def test_a_state_needs_a_name(name: Any) -> None:
    with pytest.raises(ConfigError, match="a state needs a name"):
        ListStateDescriptor(name)


def test_a_reducing_state_needs_a_function() -> None:
    with pytest.raises(ConfigError, match="state 'x' needs a ReduceFunction or a function of two values"):
        ReducingStateDescriptor("x", 7)


def test_an_aggregating_state_needs_an_aggregate_function() -> None:
    with pytest.raises(ConfigError, match="state 'x' needs an AggregateFunction; got builtin_function_or"):
        AggregatingStateDescriptor("x", max)  # type: ignore[arg-type] # that is the point
