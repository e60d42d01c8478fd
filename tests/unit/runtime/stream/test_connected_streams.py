"""Two streams in one function, with keys and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import ConfigError


class Kind(CoMapFunction):
    def map1(self, value: int) -> bool:
        return True

    def map2(self, value: str) -> bool:
        return False


class Count(CoMapFunction):
    """Both functions count in one state."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def _next(self, value: tuple[str, str]) -> tuple[str, int]:
        self.count.update(self.count.value() + 1)
        return value[0], self.count.value()

    def map1(self, value: tuple[str, str]) -> tuple[str, int]:
        return self._next(value)

    def map2(self, value: tuple[str, str]) -> tuple[str, int]:
        return self._next(value)


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield from [value] * value

    def flat_map2(self, value: str) -> list[int]:
        return []


class Match(KeyedCoProcessFunction):
    """Emits a pair once both sides of a key have come; what stays alone leaves by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting"))

    def _meet(self, value: tuple[int, str], ctx: Any) -> Iterator[Any]:
        other = self.waiting.value()
        if other is None:
            self.waiting.update(value[1])
            ctx.timer_service().register_event_time_timer(1_000)
        else:
            self.waiting.update("")
            yield ctx.get_current_key(), *sorted([other, value[1]])

    def process_element1(self, value: tuple[int, str], ctx: Any) -> Iterator[Any]:
        return self._meet(value, ctx)

    def process_element2(self, value: tuple[int, str], ctx: Any) -> Iterator[Any]:
        return self._meet(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self.waiting.value():
            yield ctx.get_current_key(), self.waiting.value(), "alone"


SECOND = OutputTag("second")


class Sides(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield SECOND, value


@pytest.mark.spec("002/AX-04")
def test_a_connected_map_turns_integers_into_true_and_strings_into_false(
    anywhere: StreamExecutionEnvironment,
) -> None:
    connected = anywhere.from_collection([7]).connect(anywhere.from_collection(["x"]))

    assert sorted(connected.map(Kind()).execute_and_collect()) == [False, True]


@pytest.mark.spec("000/EX-12")
def test_both_functions_of_a_connected_map_share_one_count_at_parallelism_2(
    anywhere: StreamExecutionEnvironment,
) -> None:
    left = anywhere.from_collection([("a", "l")] * 3 + [("b", "l")])
    right = anywhere.from_collection([("a", "r")] * 2 + [("b", "r")] * 4)

    counted = left.connect(right).key_by(lambda v: v[0], lambda v: v[0]).map(Count()).set_parallelism(2)

    assert sorted(counted.execute_and_collect()) == [("a", n) for n in range(1, 6)] + [
        ("b", n) for n in range(1, 6)
    ]


def test_a_connected_flat_map_emits_any_number(anywhere: StreamExecutionEnvironment) -> None:
    connected = anywhere.from_collection([1, 3]).connect(anywhere.from_collection(["x", "y"]))

    assert sorted(connected.flat_map(Repeat()).execute_and_collect()) == [1, 3, 3, 3]


def test_keyed_streams_meet_in_state_and_timers(anywhere: StreamExecutionEnvironment) -> None:
    left = anywhere.from_collection([(n, f"left {n}") for n in range(6)])
    floats: list[Any] = [(float(n), f"right {n}") for n in range(5)]
    right = anywhere.from_collection(floats)

    matched = left.key_by(lambda v: v[0]).connect(right.key_by(lambda v: v[0])).process(Match())

    expected: list[Any] = [(n, f"left {n}", f"right {n}") for n in range(5)]
    assert sorted(matched.execute_and_collect()) == [*expected, (5, "left 5", "alone")]


def test_streams_without_keys_have_side_outputs(anywhere: StreamExecutionEnvironment) -> None:
    processed = (
        anywhere.from_collection([1, 2]).connect(anywhere.from_collection(["a", "b"])).process(Sides())
    )

    both = processed.map(lambda v: ("main", v)).union(
        processed.get_side_output(OutputTag("second")).map(lambda v: ("side", v))
    )

    assert sorted(both.execute_and_collect(), key=repr) == [
        ("main", 1),
        ("main", 2),
        ("side", "a"),
        ("side", "b"),
    ]


@pytest.mark.parametrize(
    ("mistake", "match"),
    [
        (lambda a, b: a.connect([1]), "connect takes a DataStream; got list"),
        (lambda a, b: a.connect(b).map(Repeat()), "map takes a CoMapFunction; got Repeat"),
        (lambda a, b: a.connect(b).flat_map(Kind()), "flat_map takes a CoFlatMapFunction; got Kind"),
        (lambda a, b: a.connect(b).process(Match()), "process takes a CoProcessFunction; got Match"),
        (
            lambda a, b: a.connect(b).key_by(abs, abs).process(Sides()),
            "process takes a KeyedCoProcessFunction; got Sides",
        ),
        (
            lambda a, b: a.key_by(abs).connect(b).map(Kind()),
            r"is keyed; expected both or neither; call key_by",
        ),
    ],
    ids=["no stream", "map", "flat_map", "process", "keyed process", "one key"],
)
def test_a_misuse_says_what_was_expected(mistake: Any, match: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()

    with pytest.raises(ConfigError, match=match):
        mistake(env.from_collection([1]), env.from_collection([2]))
