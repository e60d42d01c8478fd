"""State that belongs to no key: dealt anew at every restore, whole or in shares."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.stream.buffering import BUFFERED, BufferingSink
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
)
from tidegate.errors import ConfigError, RecordError, TidegateError
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.operators.operator_state import OperatorStates
from tidegate.testing.harness import Harness, HarnessSnapshot


def filled(elements: str, *, union: bool) -> HarnessSnapshot:
    with Harness(lambda stream: stream.flat_map(BufferingSink(union=union))) as harness:
        for element in elements:
            harness.push(element)
        return harness.snapshot()


def dealt(snapshot: HarnessSnapshot, parallelism: int, *, union: bool) -> dict[int, list[str]]:
    build = lambda stream: stream.broadcast().flat_map(BufferingSink(union=union))  # noqa: E731
    with Harness(build, parallelism=parallelism, restored=snapshot) as harness:
        harness.push("whose?")
        return dict(harness.take())


@pytest.mark.parametrize(
    ("parallelism", "split"),
    [(1, [["1", "2"]]), (2, [["1"], ["2"]]), (3, [["1"], ["2"], []])],
)
def test_a_list_is_split_evenly_or_given_whole(parallelism: int, split: list[list[str]]) -> None:
    shares = dealt(filled("12", union=False), parallelism, union=False)
    assert [shares[subtask] for subtask in range(parallelism)] == split

    wholes = dealt(filled("12", union=True), parallelism, union=True)
    assert wholes == {subtask: ["1", "2"] for subtask in range(parallelism)}


def test_what_is_buffered_survives_a_restore() -> None:
    def build(stream: Any) -> Any:
        return stream.flat_map(BufferingSink(2))

    with Harness(build) as before:
        for element in "abc":
            before.push(element)
        assert before.take() == [["a", "b"]]
        taken = before.snapshot()
    with Harness(build, restored=taken) as after:
        after.push("d")
        assert after.take() == [["c", "d"]]


def test_a_threshold_that_is_passed_over_never_flushes(anywhere: StreamExecutionEnvironment) -> None:
    found = anywhere.from_collection(list("abc")).flat_map(BufferingSink()).execute_and_collect()
    assert list(found) == []


def test_the_function_is_told_what_it_starts_from() -> None:
    first, second = BufferingSink(), BufferingSink()
    with Harness(lambda stream: stream.flat_map(first)) as harness:
        taken = harness.snapshot()
    with Harness(lambda stream: stream.flat_map(second), restored=taken):
        assert (first.restored_from, second.restored_from) == (None, 1)


def test_a_snapshot_holds_no_live_item() -> None:
    states = OperatorStates(RestoredOperator(), subtask=0)
    rows = states.get_list_state(ListStateDescriptor("rows"))
    row = ["a"]
    rows.add(row)
    row.append("later")
    (held,) = states.snapshot()
    rows.get()[0].append("later")
    again = OperatorStates(RestoredOperator(lists=(held,)), subtask=0)
    assert again.get_list_state(ListStateDescriptor("rows")).get() == [["a"]]


@pytest.mark.parametrize("subtask", [0, 1])
def test_state_the_program_does_not_ask_for_is_kept(subtask: int) -> None:
    split = OperatorList("state:a", (b"1",), "split")
    union = OperatorList("state:b", (b"2",), "union")
    other = OperatorList("queue", (b"3",), "split")
    states = OperatorStates(RestoredOperator(lists=(split, union, other)), subtask)
    assert states.snapshot() == ((split, union) if subtask == 0 else (split,))


def test_one_name_is_one_state() -> None:
    states = OperatorStates(RestoredOperator(), subtask=0)
    assert states.get_list_state(BUFFERED) is states.get_list_state(BUFFERED)
    with pytest.raises(ConfigError, match="operator state 'buffered-elements' is declared twice; got union"):
        states.get_union_list_state(BUFFERED)
    with pytest.raises(ConfigError, match="needs a ListStateDescriptor; got MapStateDescriptor"):
        states.get_list_state(MapStateDescriptor("x"))  # type: ignore[arg-type] # that is the point


def test_an_item_of_the_wrong_type_is_refused_at_once() -> None:
    states = OperatorStates(RestoredOperator(), subtask=0)
    with pytest.raises(RecordError, match="declared type"):
        states.get_list_state(BUFFERED).add(1)


def test_a_broadcast_map_is_what_was_put() -> None:
    prices = MapStateDescriptor("prices")
    states = OperatorStates(RestoredOperator(), subtask=0)
    state = states.get_broadcast_state(prices)
    state.put_all({"a": 1, "b": 2, 3.0: 3})
    state["b"] = 4
    del state["a"]
    state.remove("never there")
    again = OperatorStates(RestoredOperator(lists=states.snapshot()), subtask=1).get_broadcast_state(prices)
    assert sorted(again.items(), key=str) == [("b", 4), (3, 3)]
    assert (again.get("a"), again[3], "b" in again, again.is_empty()) == (None, 3, True, False)
    assert sorted(again, key=str) == [3, "b"]
    assert sorted(again.values()) == [3, 4]
    again.clear()
    assert again.is_empty()


def test_a_failing_snapshot_is_blamed_on_its_function(anywhere: StreamExecutionEnvironment) -> None:
    class Failing(BufferingSink):
        def snapshot_state(self, context: Any) -> None:
            raise OSError("disk")

    with (
        Harness(lambda stream: stream.flat_map(Failing())) as harness,
        pytest.raises(TidegateError, match=r"operator 'flat_map' .* failed in snapshot_state: OSError: disk"),
    ):
        harness.snapshot()


class Listening(MapFunction, CheckpointListener):
    def __init__(self) -> None:
        self.completed: list[int] = []

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)


class Deaf(Listening):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        raise OSError("nobody there")


def test_a_snapshot_of_a_harness_is_complete_when_it_is_returned() -> None:
    function = Listening()
    with Harness(lambda stream: stream.map(function)) as harness:
        harness.snapshot()
        assert function.completed == [1]


def test_a_listener_that_fails_is_named() -> None:
    with (
        Harness(lambda stream: stream.map(Deaf())) as harness,
        pytest.raises(TidegateError, match=r"'map' .* failed in notify_checkpoint_complete: OSError: nobody"),
    ):
        harness.snapshot()


class Wrapping(MapFunction, CheckpointedFunction):
    """Keeps state itself, and calls another function in an attribute whose name a step could use, too."""

    def __init__(self) -> None:
        self.function = Listening()
        self.count = 0

    def initialize_state(self, context: Any) -> None:
        self.stored = context.get_operator_state_store().get_list_state(ListStateDescriptor("count"))
        self.count = sum(self.stored.get())

    def map(self, value: Any) -> Any:
        self.count += 1
        return self.count

    def snapshot_state(self, context: Any) -> None:
        self.stored.update([self.count])


def test_a_function_that_holds_another_one_keeps_its_own_state() -> None:
    with Harness(lambda stream: stream.map(Wrapping())) as harness:
        harness.push("a")
        taken = harness.snapshot()
    with Harness(lambda stream: stream.map(Wrapping()), restored=taken) as harness:
        harness.push("b")
        assert harness.take() == [2]
