from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.keyed.row import Cursor
from tidegate.errors import RecordError
from tidegate.ids import OperatorUid
from tidegate.runtime.operators.codegen import Compiled, Encoder, Stage, compile_stages
from tidegate.runtime.operators.operator import Call, Shape
from tidegate.runtime.operators.rows import Declared
from tidegate.runtime.stream.tags import OutputTag
from tidegate.types import Types


def stage(
    shape: Shape,
    number: int,
    *children: Stage,
    does: Any = None,
    outputs: tuple[int, ...] = (),
    **fields: Any,
) -> Stage:
    call = does if isinstance(does, Call) else Call(shape, does or FUNCTIONS[shape])
    return Stage(OperatorUid(f"{shape}-{number}"), number, call, children, outputs, **fields)


class Keyed(Cursor):
    """Stands for the state of a keyed function, with the key itself as its row."""

    __slots__ = ("stamp",)

    def __init__(self) -> None:
        super().__init__()
        self.stamp: int | None = None


FUNCTIONS: dict[Shape, Any] = {
    "map": lambda value: value + 1,
    "filter": lambda value: value % 2 == 0,
    "flat_map": lambda value: [value] * (value % 3),
}

MAP_FILTER_FLAT_MAP = stage("map", 0, stage("filter", 1, stage("flat_map", 2, outputs=(0,))))


@given(values=st.lists(st.integers(-50, 50)))
def test_a_fused_chain_does_what_its_steps_do_one_after_another(values: list[int]) -> None:
    loop = compile_stages("chain", MAP_FILTER_FLAT_MAP, timed=False)

    ((results, times),) = loop.run(values, None, None)

    kept = [value + 1 for value in values if (value + 1) % 2 == 0]
    assert results == [value for value in kept for _ in range(value % 3)]
    assert times is None


@given(records=st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9))))
def test_a_timed_chain_gives_each_result_the_time_of_its_record(records: list[tuple[int, int]]) -> None:
    loop = compile_stages("chain", MAP_FILTER_FLAT_MAP, timed=True)

    ((results, times),) = loop.run([v for v, _ in records], [t for _, t in records], None)

    expected = [(v + 1, t) for v, t in records if (v + 1) % 2 == 0 for _ in range((v + 1) % 3)]
    assert list(zip(results, times or [], strict=True)) == expected


def test_a_fan_out_feeds_every_branch_and_a_filter_closes_only_its_own() -> None:
    head = stage("map", 0, stage("filter", 1, outputs=(1,)), stage("flat_map", 2, outputs=(2,)), outputs=(0,))

    loop = compile_stages("fan", head, timed=False)

    (mapped, _), (filtered, _), (flat, _) = loop.run([1, 2, 3], None, None)
    assert mapped == [2, 3, 4]
    assert filtered == [2, 4]
    assert flat == [2, 2, 4]


def test_each_record_passes_the_whole_chain_before_the_next_one() -> None:
    seen: list[tuple[str, int]] = []

    def note(name: str) -> Any:
        def call(value: int) -> int:
            seen.append((name, value))
            return value

        return call

    head = stage("map", 0, stage("map", 1, does=note("b"), outputs=(0,)), does=note("a"))
    loop = compile_stages("order", head, timed=False)
    loop.run([1, 2], None, None)

    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_chain_may_end_in_nothing() -> None:
    loop = compile_stages("end", stage("map", 0, stage("filter", 1)), timed=False)

    assert loop.run([1, 2], None, None) == ()


def test_a_pass_calls_nothing() -> None:
    loop = compile_stages("pass", Stage(OperatorUid("source"), 9, None, outputs=(0,)), timed=False)

    assert loop.run([1, 2], None, None) == (([1, 2], None),)


@pytest.mark.parametrize("timed", [False, True], ids=["untimed", "timed"])
def test_a_keyed_function_is_bound_to_the_row_of_the_key_and_sees_the_time(timed: bool) -> None:
    keyed = Keyed()

    def process(value: int, ctx: Any) -> list[Any] | None:
        return [(value, ctx.row, ctx.stamp)] if value != 2 else None

    call = Call("process", process, keyed, keyed)
    loop = compile_stages("keyed", stage("process", 0, does=call, outputs=(0,)), timed=timed)

    ((results, _),) = loop.run([1, 2, 3], [10, 20, 30], ["row of a", "row of b", "row of a"])

    assert results == [(1, "row of a", 10 if timed else None), (3, "row of a", 30 if timed else None)]


@pytest.mark.parametrize("isolated", [True, False])
def test_an_output_keeps_a_copy_where_values_may_change_later(isolated: bool) -> None:
    shared: list[int] = []

    def grow(value: int) -> list[int]:
        shared.append(value)
        return shared

    loop = compile_stages("copy", stage("map", 0, does=grow, outputs=(0,), isolated=isolated), timed=False)

    ((results, _),) = loop.run([1, 2], None, None)

    assert results == ([[1], [1, 2]] if isolated else [[1, 2], [1, 2]])


@pytest.mark.parametrize("called", [True, False], ids=["behind a step", "at once"])
def test_an_output_that_wants_records_encoded_gets_them_as_they_were_when_emitted(called: bool) -> None:
    held: list[int] = []

    def grow(value: list[int]) -> list[int]:
        held.extend(value)
        return held

    head = (
        stage("map", 0, does=grow, outputs=(0,), isolated=True)
        if called
        else Stage(OperatorUid("source"), 0, None, outputs=(0,))
    )
    encoders = {0: Encoder(OperatorUid("sink"), str)}
    loop = compile_stages("encode", head, timed=False, encoders=encoders)

    ((results, _),) = loop.run([[1], [2]], None, None)

    assert results == (["[1]", "[1, 2]"] if called else ["[1]", "[2]"])
    assert OperatorUid("sink") in loop.lines.values()


def failing(value: int) -> int:
    return 10 // value


def test_a_traceback_shows_the_generated_line_and_the_users_line() -> None:
    loop = compile_stages("t[0]", stage("map", 0, does=failing, outputs=(0,)), timed=False)

    with pytest.raises(ZeroDivisionError) as caught:
        loop.run([1, 0], None, None)

    text = "".join(traceback.format_exception(caught.value))
    assert '"<tidegate chain t[0]>", line 4, in run\n    v0 = f0(v)' in text
    assert "return 10 // value" in text


def test_each_line_that_calls_a_user_function_knows_its_step() -> None:
    loop: Compiled = compile_stages("chain", MAP_FILTER_FLAT_MAP, timed=False)

    lines = loop.source.splitlines()
    assert {lines[number - 1].strip(): uid for number, uid in loop.lines.items()} == {
        "v0 = f0(v)": "map-0",
        "if f1(v0):": "filter-1",
        "results = f2(v0)": "flat_map-2",
        "if type(results) is str: refuse_text(results, f2)": "flat_map-2",
        "for v2 in results or ():": "flat_map-2",
    }


def listed(value: int) -> list[str] | None:
    return None


def generated(value: int) -> Any:
    yield value


def said_to_be_iterable(value: int) -> Iterable[str]:
    return "text"


@pytest.mark.parametrize(
    ("function", "tested"),
    [(listed, False), (generated, False), (said_to_be_iterable, True), (lambda value: [value], True)],
    ids=["annotated", "generator", "a text is iterable", "says nothing"],
)
@pytest.mark.parametrize("shape", ["flat_map", "process"])
def test_only_what_can_be_a_text_is_tested_for_one(shape: Shape, function: Any, *, tested: bool) -> None:
    call = Call(shape, function, Keyed())
    loop = compile_stages("texts", stage(shape, 0, does=call, outputs=(0,)), timed=False)

    assert ("refuse_text" in loop.source) is tested


def test_a_stamp_changes_the_time_of_what_follows_it_and_of_nothing_beside_it() -> None:
    stamped = stage("stamp", 1, does=lambda value, time: time + value, outputs=(0,))
    beside = stage("map", 2, outputs=(1,))
    loop = compile_stages("stamp", Stage(OperatorUid("source"), 0, None, (stamped, beside)), timed=True)

    assert loop.run([1, 2], [10, 20], None) == (([1, 2], [11, 22]), ([2, 3], [10, 20]))


def test_a_stamp_gives_a_time_where_there_was_none() -> None:
    loop = compile_stages(
        "stamp", stage("stamp", 0, does=lambda value, time: (value, time)[0], outputs=(0,)), timed=False
    )

    assert loop.run([5], None, None) == (([5], [5]),)


def test_what_carries_a_tag_leaves_by_its_side_output_and_unwanted_tags_are_dropped() -> None:
    late, lost = OutputTag("late"), OutputTag("lost")
    call = Call("process", lambda value, context: [value, (late, -value), (lost, value)], Keyed())
    side = Stage(OperatorUid("side"), 1, None, outputs=(1,))
    loop = compile_stages(
        "sides", stage("process", 0, does=call, outputs=(0,), sides=((late, side),)), timed=True
    )

    assert loop.run([1, 2], [10, 20], None) == (([1, 2], [10, 20]), ([-1, -2], [10, 20]))


def test_what_an_operator_emits_on_its_own_is_sorted_by_tag_as_well() -> None:
    late = OutputTag("late")
    side = Stage(OperatorUid("side"), 1, None, outputs=(1,))
    head = stage("emitted", 0, does=Call("emitted", len), outputs=(0,), sides=((late, side),))
    loop = compile_stages("fired", head, timed=True)

    assert loop.run([1, (late, 2), (OutputTag("lost"), 3)], [10, 20, 30], None) == (([1], [10]), ([2], [20]))


def test_a_loop_pauses_behind_the_record_that_moves_time_and_goes_on_from_there() -> None:
    class Even:
        moved = False

        def stamp(self, value: int, time: int | None) -> int:
            self.moved = value % 2 == 0
            return value

    even = Even()
    head = stage("stamp", 0, does=Call("stamp", even.stamp, cut=even), outputs=(0,))
    loop = compile_stages("cut", head, timed=False)
    values = iter([1, 2, 3, 4, 5])

    parts = [loop.run(values, None, None)[0][0] for _ in range(4)]

    assert loop.cuts == (even,)
    assert parts == [[1, 2], [3, 4], [5], []]


def test_a_loop_checks_the_results_of_the_stages_it_is_told_to() -> None:
    even = stage("map", 1, outputs=(0,), does=str, typed=Types.INT())
    head = stage("filter", 0, even)
    check = Declared(Types.INT())

    plain = compile_stages("plain", head, timed=False)
    checked = compile_stages("checked", head, timed=False, checks={1: check})

    assert plain.run([1, 2], None, None) == ((["2"], None),)
    assert checked.run([1], None, None) == (([], None),)
    assert not check.seen
    with pytest.raises(
        RecordError, match="result does not have its declared type: got str '2'; expected int"
    ):
        checked.run([1, 2], None, None)
