"""Broadcast state: every subtask gets every broadcast record, the other side only reads, a restore gives each its map."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tidegate.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SourceFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    state,
)
from tidegate.errors import ConfigError, TidegateError
from tidegate.testing.harness import Harness
from tidegate.types import Types

Env = StreamExecutionEnvironment
Item: TypeAlias = tuple[str, str, str]
"""Colour, shape, name."""
Rule: TypeAlias = tuple[str, str, str]
"""Name, first shape, second shape."""

RULES = MapStateDescriptor("RulesBroadcastState", Types.STRING(), Types.of(tuple[str, str, str]))


class Match(KeyedBroadcastProcessFunction):
    """The example as printed: what matched stays, so the next second shape matches it again."""

    items = state.Map(str, list[tuple[str, str, str]])

    def process_broadcast_element(self, value: Rule, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value[0], value)

    def process_element(self, value: Item, ctx: Any) -> Iterator[str]:
        _, shape, name = value
        for rule, first, second in ctx.get_broadcast_state(RULES).values():
            stored = self.items.get(rule) or []
            if shape == second and stored:
                for item in stored:
                    yield f"MATCH: {item[2]} - {name}"
            if shape == first:
                stored.append(value)
            if stored:
                self.items.put(rule, stored)
            else:
                self.items.remove(rule)


RULE = ("r1", "square", "triangle")
ITEMS = [
    ("red", "square", "s1"),
    ("red", "triangle", "t1"),
    ("blue", "triangle", "t9"),
    ("red", "triangle", "t2"),
]


def colour(item: Item) -> str:
    return item[0]


def matched(items: Any, rules: Any) -> Any:
    return items.key_by(colour).connect(rules.broadcast(RULES)).process(Match())


class Scripted(SourceFunction):
    """Emits parts of its records, each once so many marks of a kind have been left by the functions behind it."""

    def __init__(self, marks: Path, *parts: tuple[str, int, list[Any]]) -> None:
        self.marks = marks
        self.parts = parts
        self.running = True

    def open(self, runtime_context: Any) -> None:
        self.pause = threading.Event()

    def run(self, ctx: Any) -> None:
        for kind, count, values in self.parts:
            while self.running and len(list(self.marks.glob(f"{kind}-*"))) < count:
                self.pause.wait(0.005)
            for value in values if self.running else ():
                ctx.collect(value)

    def cancel(self) -> None:
        self.running = False


class Marking:
    """Leaves a mark for each record: `item-...` and, from every subtask, `rule-...`."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def mark(self, kind: str, value: Any) -> None:
        (self.marks / f"{kind}-{value}-{self.subtask}").touch()


class MarkedMatch(Marking, Match):
    def process_broadcast_element(self, value: Rule, ctx: Any) -> None:
        super().process_broadcast_element(value, ctx)
        self.mark("rule", value[0])

    def process_element(self, value: Item, ctx: Any) -> Iterator[str]:
        yield from super().process_element(value, ctx)
        self.mark("item", value[2])


@pytest.mark.spec("002/AX-43")
@pytest.mark.parametrize("early", [[], [("red", "square", "s0")]], ids=["rule first", "item first"])
def test_shapes_of_one_colour_match_by_a_rule_once_it_is_known(
    anywhere: Env, tmp_path: Path, early: list[Item]
) -> None:
    everywhere = anywhere.get_config().get_parallelism()
    rules = anywhere.add_source(Scripted(tmp_path, ("item", len(early), [RULE])))
    items = anywhere.add_source(Scripted(tmp_path, ("", 0, early), ("rule", everywhere, ITEMS)))
    keyed = items.set_parallelism(1).key_by(colour)

    found = keyed.connect(rules.set_parallelism(1).broadcast(RULES)).process(MarkedMatch(tmp_path))

    assert sorted(found.execute_and_collect()) == ["MATCH: s1 - t1", "MATCH: s1 - t2"]


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_each_subtask_has_the_whole_map_after_a_restore(parallelism: int, backend: str) -> None:
    with Harness(matched, parallelism=2, backend=backend) as before:
        before.push(RULE, input=1)
        for item in ITEMS[:2]:
            before.push(item)
        taken = before.snapshot()
        before.push(("r2", "triangle", "triangle"), input=1)
    with Harness(matched, parallelism=parallelism, backend=backend, restored=taken) as after:
        after.push(ITEMS[3])
        for number in range(8):
            after.push((f"c{number}", "square", "s"))
            after.push((f"c{number}", "triangle", "t"))
        assert after.take() == ["MATCH: s1 - t2"] + ["MATCH: s - t"] * 8


class Count(KeyedBroadcastProcessFunction):
    """Counts records per key; a broadcast word tells all counts, or forgets them."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_reducing_state(COUNT)

    def process_element(self, value: str, ctx: Any) -> None:
        self.count.add(1)
        ctx.timer_service().register_event_time_timer(100)

    def process_broadcast_element(self, value: str, ctx: Any) -> list[Any]:
        told: list[Any] = []

        def tell(key: str, count: Any) -> None:
            told.append((key, count.get()))
            if value == "forget":
                count.clear()

        ctx.apply_to_keyed_state(COUNT, tell)
        return told

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.get(), list(ctx.get_broadcast_state(RULES).keys())


COUNT = ReducingStateDescriptor("count", lambda one, other: one + other, Types.LONG())


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_function_is_applied_to_the_state_of_every_key(parallelism: int) -> None:
    def build(words: Any, orders: Any) -> Any:
        return words.key_by(str).connect(orders.broadcast(RULES)).process(Count())

    words = [f"w{number}" for number in range(10)]
    with Harness(build, parallelism=parallelism) as harness:
        for word in [*words, "w3"]:
            harness.push(word)
        harness.push("tell", input=1)
        assert sorted(harness.take()) == sorted((word, 2 if word == "w3" else 1) for word in words)
        harness.snapshot()
        harness.push("forget", input=1)
        assert len(harness.take()) == 10
        harness.push("w5")
        harness.push("tell", input=1)
        assert harness.take() == [("w5", 1)]
        harness.watermark(100)
        assert sorted(harness.take())[5] == ("w5", 1, [])


class MarkedCount(Marking, Count):
    def open(self, runtime_context: Any) -> None:
        Marking.open(self, runtime_context)
        Count.open(self, runtime_context)

    def process_element(self, value: str, ctx: Any) -> None:
        super().process_element(value, ctx)
        self.mark("item", value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield from ()


@pytest.mark.spec("002/AX-66")
def test_a_function_is_applied_once_to_each_of_three_live_keys(anywhere: Env, tmp_path: Path) -> None:
    words = anywhere.from_collection(["a", "b", "c"]).set_parallelism(1).key_by(str)
    orders = anywhere.add_source(Scripted(tmp_path, ("item", 3, ["tell"]))).set_parallelism(1)

    told = words.connect(orders.broadcast(RULES)).process(MarkedCount(tmp_path))

    assert sorted(told.execute_and_collect()) == [("a", 1), ("b", 1), ("c", 1)]


def test_a_function_is_applied_to_more_keys_than_are_cached() -> None:
    def build(words: Any, orders: Any) -> Any:
        return words.key_by(str).connect(orders.broadcast(RULES)).process(Count())

    with Harness(build, backend="rocksdb") as harness:
        for number in range(2_500):
            harness.push(f"w{number}")
        harness.push("tell", input=1)
        assert len(set(harness.take())) == 2_500


class Price(BroadcastProcessFunction):
    LATE = OutputTag("unknown")

    def process_element(self, value: str, ctx: Any) -> Iterator[Any]:
        prices = ctx.get_broadcast_state(PRICES)
        if value in prices:
            prices.get(value).append("changed by a reader")
            yield value, prices[value]
        else:
            yield self.LATE, value

    def process_broadcast_element(self, value: tuple[str, list[int] | None], ctx: Any) -> None:
        prices = ctx.get_broadcast_state(PRICES)
        if value[1] is None:
            del prices[value[0]]
        else:
            prices.put_all({value[0]: value[1]}.items())


PRICES = MapStateDescriptor("prices")


def test_the_side_with_the_records_only_reads() -> None:
    def build(orders: Any, prices: Any) -> Any:
        return orders.connect(prices.broadcast(PRICES, RULES)).process(Price())

    with Harness(build, side_outputs=[Price.LATE]) as harness:
        harness.push(("tea", [3]), input=1)
        harness.push("tea")
        harness.push("tea")
        assert harness.take() == [("tea", [3]), ("tea", [3])]
        harness.push(("tea", None), input=1)
        harness.push("tea")
        assert (harness.take(), harness.take(Price.LATE)) == ([], ["tea"])


CHANGES: dict[str, Callable[[Any], object]] = {
    "put": lambda rules: rules.put("a", "b"),
    "put_all": lambda rules: rules.put_all({"a": "b"}),
    "remove": lambda rules: rules.remove("a"),
    "clear": lambda rules: rules.clear(),
    "set": lambda rules: operator.setitem(rules, "a", "b"),
    "delete": lambda rules: operator.delitem(rules, "a"),
}
READS_ONLY = (
    "broadcast state 'RulesBroadcastState' is read-only on this side; got a change in process_element or "
    "on_timer; expected one in process_broadcast_element, which runs in every subtask with the same records; move it there, and "
    "broadcast what it depends on"
)


class Misuse(KeyedBroadcastProcessFunction):
    def __init__(self, misuse: str) -> None:
        self.misuse = misuse

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: str, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(MapStateDescriptor("other") if self.misuse == "name" else RULES)
        if self.misuse in CHANGES:
            CHANGES[self.misuse](rules)

    def process_broadcast_element(self, value: str, ctx: Any) -> None:
        self.last.update(value)


class Writes(Misuse):
    """Writes from the wrong side only."""

    def __init__(self) -> None:
        super().__init__("put")

    def process_broadcast_element(self, value: str, ctx: Any) -> None:
        assert list(ctx.get_broadcast_state(RULES).keys()) == []


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        ("name", "broadcast state 'other' is not one of this step; .*; pass it to broadcast"),
        ("key", "keyed state is used without a current key"),
        *((change, READS_ONLY) for change in CHANGES),
    ],
)
def test_misuse_is_refused(misuse: str, message: str) -> None:
    def build(words: Any, orders: Any) -> Any:
        return words.key_by(str).connect(orders.broadcast(RULES)).process(Misuse(misuse))

    def use(harness: Harness) -> None:
        harness.push("word")
        harness.push("order", input=1)

    with Harness(build) as harness, pytest.raises(TidegateError, match=message):
        use(harness)


@pytest.mark.spec("002/AX-62")
def test_the_side_with_the_records_cannot_write_broadcast_state(anywhere: Env) -> None:
    words, orders = anywhere.from_collection(["word"]), anywhere.from_collection(["order"])

    written = words.key_by(str).connect(orders.map(str).filter(bool).broadcast(RULES)).process(Writes())

    refused = (
        r"operator 'broadcast_process'.*: broadcast state 'RulesBroadcastState' is read-only on this side"
    )
    with pytest.raises(ConfigError, match=refused):
        list(written.execute_and_collect())


def test_programs_that_cannot_work_are_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    stream = env.from_collection(["a"])
    with pytest.raises(ConfigError, match=r"broadcast takes MapStateDescriptors.*; got ListStateDescriptor"):
        stream.broadcast(ListStateDescriptor("x"))  # type: ignore[call-overload] # that is the point
    with pytest.raises(ConfigError, match="broadcast states need different names; got prices, prices"):
        stream.broadcast(PRICES, PRICES)
    connected = stream.key_by(str).connect(stream.broadcast(PRICES))
    with pytest.raises(ConfigError, match="process takes a KeyedBroadcastProcessFunction; got Price"):
        connected.process(Price())
    with pytest.raises(ConfigError, match="process takes a BroadcastProcessFunction; got Count"):
        stream.connect(stream.broadcast(PRICES)).process(Count())


class Infer(Marking, BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield self.subtask, value, value * ctx.get_broadcast_state(PRICES).get("model")
        self.mark("item", value)

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(PRICES).put("model", value)
        self.mark("rule", value)


@pytest.mark.spec("004/AX-018")
def test_a_model_is_used_by_every_subtask_and_an_update_changes_later_results(
    anywhere: Env, tmp_path: Path
) -> None:
    everywhere = anywhere.get_config().get_parallelism()
    first, second = list(range(1, 7)), list(range(7, 13))
    models = Scripted(tmp_path, ("", 0, [10]), ("item", len(first), [100]))
    data = Scripted(tmp_path, ("rule-10", everywhere, first), ("rule-100", everywhere, second))
    model = anywhere.add_source(models).set_parallelism(1).broadcast(PRICES)

    inferred = (
        anywhere.add_source(data).set_parallelism(1).rebalance().connect(model).process(Infer(tmp_path))
    )

    results = list(inferred.execute_and_collect())
    assert sorted((value, result) for _, value, result in results) == [
        *((value, 10 * value) for value in first),
        *((value, 100 * value) for value in second),
    ]
    for values in (first, second):
        assert {subtask for subtask, value, _ in results if value in values} == set(range(everywhere))
