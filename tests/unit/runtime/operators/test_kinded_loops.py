"""The loop for batches with row kinds: what functions see, which kind results have, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.ids import OperatorUid
from tidegate.row import Row
from tidegate.runtime.operators.codegen import Encoder, Stage, compile_stages
from tidegate.runtime.operators.operator import Call, Shape
from tidegate.runtime.stream.tags import OutputTag

KINDS = st.sampled_from(RowKind)
CHANGES = st.lists(st.tuples(KINDS, st.integers(0, 9)))
INSERT, DELETE = RowKind.INSERT, RowKind.DELETE


def stage(shape: Shape, does: Any, *children: Stage, number: int = 0, **fields: Any) -> Stage:
    call = does if isinstance(does, Call) else Call(shape, does)
    return Stage(OperatorUid(shape), number, call, children, **fields)


def run(head: Stage, values: list[Any], kinds: list[RowKind], times: list[int] | None = None) -> Any:
    loop = compile_stages("kinds", head, timed=times is not None, kinded=True)
    return loop.run(values, times, None, kinds)


@given(changes=CHANGES)
def test_a_filter_sees_rows_with_their_kind_and_keeps_it(changes: list[tuple[RowKind, int]]) -> None:
    seen: list[tuple[RowKind, int]] = []

    def odd(row: Row) -> bool:
        seen.append((row.get_row_kind(), row[0]))
        return bool(row[0] % 2)

    plain = [Row(number) for _, number in changes]
    ((values, _, kinds),) = run(stage("filter", odd, outputs=(0,)), plain, [kind for kind, _ in changes])

    assert seen == changes
    assert [(kind, row[0]) for kind, row in zip(kinds, values, strict=True)] == [
        (kind, number) for kind, number in changes if number % 2
    ]
    assert all(row.get_row_kind() is INSERT for row in plain)


@given(changes=CHANGES)
def test_a_stamp_and_a_step_that_calls_nothing_hand_kinds_on(changes: list[tuple[RowKind, int]]) -> None:
    given_kinds, numbers = [kind for kind, _ in changes], [number for _, number in changes]
    stamped = stage("stamp", lambda value, time: value + time, number=1, outputs=(1,))
    head = Stage(OperatorUid("source"), 0, None, (stamped,), outputs=(0,))

    (first, times, kinds), (second, later, same) = run(head, numbers, given_kinds, [100] * len(numbers))

    assert (first, times, kinds) == (numbers, [100] * len(numbers), given_kinds)
    assert (second, later, same) == (numbers, [100 + number for number in numbers], given_kinds)


def test_a_loop_that_calls_nothing_copies_nothing() -> None:
    kinds = [DELETE]

    ((_, _, same),) = run(Stage(OperatorUid("source"), 0, None, outputs=(0,)), [1], kinds)

    assert same is kinds


class Stamped:
    stamp: int | None = None


@pytest.mark.parametrize(
    "call",
    [
        Call("map", lambda row: Row(*row)),
        Call("flat_map", lambda row: [Row(*row)]),
        Call("process", lambda row, context: [Row(*row)], Stamped()),
        Call("emit", lambda row, time: [(Row(*row), time)]),
    ],
    ids=lambda call: str(call.shape),
)
def test_what_a_function_makes_has_its_own_kind(call: Call) -> None:
    loop = compile_stages("own", stage(call.shape, call, outputs=(0,)), timed=False, kinded=True)

    ((values, _),) = loop.run([Row(1)], None, None, [DELETE])

    assert values == [Row(1)]
    assert loop.of_rows == {0}


def test_results_of_a_type_that_is_no_row_are_not_searched_for_kinds() -> None:
    loop = compile_stages("int", stage("map", len, outputs=(0,), rows=False), timed=False)

    assert not loop.of_rows


def test_a_row_is_copied_only_if_it_has_another_kind() -> None:
    right, wrong = Row.of_kind(DELETE, 1), Row(2)

    ((values, _),) = run(stage("map", lambda row: row, outputs=(0,)), [right, wrong], [DELETE, DELETE])

    assert values[0] is right
    assert values[1] == Row.of_kind(DELETE, 2)
    assert wrong == Row(2)


@pytest.mark.parametrize("shape", ["map", "filter", "flat_map"])
def test_a_change_that_is_no_row_is_refused_in_front_of_a_function(shape: Shape) -> None:
    head = stage(shape, lambda value: [value], outputs=(0,))

    assert run(head, [7], [INSERT])[0][0]
    with pytest.raises(
        RecordError, match=r"kind of a change would be lost; got 7 as DELETE; .*map changes to rows"
    ):
        run(head, [7], [DELETE])


def test_a_step_that_takes_insertions_only_refuses_changes_of_batches_and_of_rows() -> None:
    last = stage("map", lambda row: row, number=1, outputs=(0,), takes="insert-only")
    alone, behind = last, stage("map", lambda row: row, last)

    with pytest.raises(RecordError, match=r"accepts insertions only got 7 as DELETE"):
        run(alone, [7], [DELETE])
    loop = compile_stages("unknown", behind, timed=False)
    assert loop.run([Row(1), 2], None, None)[0][0] == [Row(1), 2]
    with pytest.raises(RecordError, match=r"accepts insertions only got -D<Row\(1\)> as DELETE"):
        loop.run([Row.of_kind(DELETE, 1)], None, None)
    assert "refuse_change" not in compile_stages("head", alone, timed=False).source


def test_a_step_may_take_the_kind_itself() -> None:
    taken: list[Any] = []

    def take(*record: Any) -> tuple[()]:
        taken.append(record)
        return ()

    call = Call("emit", take, takes_kind=True)

    run(stage("emit", call), ["a"], [DELETE], [5])
    compile_stages("plain", stage("emit", call), timed=True).run(["b"], [6], None)

    assert taken == [("a", 5, DELETE), ("b", 6)]


def test_side_outputs_have_the_kinds_of_their_rows() -> None:
    tag = OutputTag("late")
    side = Stage(OperatorUid("side"), 1, None, outputs=(1,))
    call = Call("process", lambda row, context: [(tag, row), row], Stamped())

    (main, _), (late, _) = run(stage("process", call, outputs=(0,), sides=((tag, side),)), [Row(1)], [DELETE])

    assert main == late == [Row.of_kind(DELETE, 1)]


def test_a_branch_may_change_rows_while_another_hands_on_the_kinds_of_their_batch() -> None:
    changing = stage("map", lambda row: Row.of_kind(INSERT, *row), number=1, outputs=(1,))
    head = Stage(OperatorUid("source"), 0, None, (changing,), outputs=(0,))

    (_, _, kinds), (values, _) = run(head, [Row(1)], [DELETE])

    assert kinds == [DELETE]
    assert values == [Row(1)]


def test_an_encoder_is_for_records_without_kinds() -> None:
    encoders = {0: Encoder(OperatorUid("sink"), str)}
    head = Stage(OperatorUid("source"), 0, None, outputs=(0,))

    plain = compile_stages("plain", head, timed=False, encoders=encoders)

    assert plain.run([1], None, None) == ((["1"], None),)
    assert not plain.of_rows
