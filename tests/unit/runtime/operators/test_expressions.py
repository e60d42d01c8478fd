"""Expressions in the generated loop."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.common import Row, RowKind, Types
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.errors import ConfigError, JobFailedError, UserCodeError
from tidegate.ids import OperatorUid
from tidegate.runtime.operators.codegen import Compiled, Stage, compile_stages
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions
from tidegate.runtime.operators.operator import Call
from tidegate.runtime.stream.tags import OutputTag
from tidegate.testing.harness import Harness

SMALL = OutputTag("small")


def compiled(*branches: Branch, timed: bool = False, kinded: bool = False, **names: Any) -> Compiled:
    call = Call("expressions", expressions=Expressions(branches, names=names))
    side = Stage(OperatorUid("side"), 1, None, outputs=(1,))
    head = Stage(OperatorUid("calc"), 0, call, outputs=(0,), sides=((SMALL, side),))
    return compile_stages("expressions", head, timed=timed, kinded=kinded)


@given(
    records=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99), st.sampled_from(RowKind))
    )
)
def test_every_output_has_its_own_projection_and_filter(records: list[tuple[int, int, int, RowKind]]) -> None:
    loop = compiled(
        Branch("(v[1], v[0] * rate, t)", where="v[0] > limit"),
        Branch(where="v[0] <= limit", tag=SMALL),
        timed=True,
        kinded=True,
        limit=4,
        rate=10,
    )
    values = [(first, second) for first, second, _, _ in records]
    times, kinds = [time for _, _, time, _ in records], [kind for *_, kind in records]

    large, small = loop.run(values, times, None, kinds)

    assert list(zip(*large, strict=True)) == [
        ((second, first * 10, time), time, kind) for first, second, time, kind in records if first > 4
    ]
    assert list(zip(*small, strict=True)) == [
        ((first, second), time, kind) for first, second, time, kind in records if first <= 4
    ]


def test_nothing_is_called_per_record() -> None:
    source = compiled(Branch("(v[0] + v[1], v[2])", where="v[3] > 1")).source

    assert "out0.append((v[0] + v[1], v[2]))" in source
    assert all("(" not in line.replace(".append(", "") for line in source.splitlines() if "if v[3]" in line)


def test_a_record_without_a_time_has_none() -> None:
    ((values, times), _) = compiled(Branch("(v, t)")).run([1], None, None)

    assert (values, times) == ([(1, None)], None)


def test_steps_may_bind_the_same_name_to_different_things() -> None:
    def step(number: int, factor: int, *children: Stage, **fields: Any) -> Stage:
        call = Call("expressions", expressions=Expressions((Branch("v * factor"),), names={"factor": factor}))
        return Stage(OperatorUid(f"times-{factor}"), number, call, children, **fields)

    loop = compile_stages("twice", step(0, 3, step(1, 5, outputs=(0,))), timed=False)

    assert loop.run([1, 2], None, None)[0][0] == [15, 30]


def test_variables_of_comprehensions_and_lambdas_are_their_own() -> None:
    loop = compiled(Branch("[k * f for k in v] + list(map(lambda row: row + f, v))"), f=2)

    assert loop.run([[1, 2]], None, None)[0][0] == [[2, 4, 3, 4]]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("v[0", "is not valid Python"),
        ("v[0] = 1", "is not valid Python"),
        ("rate * v", r"unknown names \['rate'\]; expected 'v', 't', or one of \['limit'\]; give it in names"),
        ("(limit := v)", "assigns a name, awaits or yields"),
        ("[v for v in (1, 2)]", "assigns a name"),
        ("(yield v)", "assigns a name, awaits or yields"),
    ],
)
def test_what_is_no_expression_is_refused_when_it_is_written(text: str, refused: str) -> None:
    with pytest.raises(ConfigError, match=refused):
        Expressions((Branch(text),), names={"limit": 1})


def test_columns_are_taken_from_a_record_once() -> None:
    expressions = Expressions((Branch("(b, a + 1)", "a > 0"),), ("a", "b"))
    head = Stage(OperatorUid("calc"), 0, Call("expressions", expressions=expressions), outputs=(0,))
    loop = compile_stages("columns", head, timed=False)

    assert loop.run([(1, "x"), (0, "y"), Row(2, "z")], None, None)[0][0] == [("x", 2), ("z", 3)]
    assert loop.source.count("for a_0, b_0, in rest") == 1
    with pytest.raises(ValueError, match="unpack"):
        loop.run([(1, 2, 3)], None, None)


@pytest.mark.parametrize("names", [("v",), ("a", "a"), ("1st",), ("class",)])
def test_a_name_that_cannot_be_one_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="names of expressions repeat or are not Python names; got"):
        Expressions((Branch(),), names)


def test_an_error_names_the_step_its_expression_and_the_record() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "restart-strategy.type": "none"}
    )
    ratios = Expressions((Branch("v[0] / v[1]", where="v[0] > 0"),))
    env.from_collection([(1, 1), (1, 0)]).transform("ratio", EXPRESSIONS, ratios).print()

    with pytest.raises(
        JobFailedError,
        match=r"operator 'ratio' .* failed in expression 'v\[0\] / v\[1\]' on record \(1, 0\).*ZeroDivisionError",
    ):
        env.execute("ratios")


CALCS = [
    Expressions((Branch("a / b", "a > 0"),), ("a", "b")),
    Expressions((Branch("a / b", "a > 0"), Branch("b", tag=SMALL)), ("a", "b")),
    Expressions((Branch("(a, a / b)", "a > 0"), Branch("v", tag=SMALL)), ("a", "b")),
]


def test_a_side_output_that_nothing_goes_to_is_empty() -> None:
    side = Stage(OperatorUid("side"), 1, None, outputs=(1,))
    calc = Call("expressions", expressions=Expressions((Branch("a"),), ("a", "b")))
    head = Stage(OperatorUid("calc"), 0, calc, outputs=(0,), sides=((SMALL, side),))
    assert compile_stages("sides", head, timed=False).run([(1, 2)], None, None) == (([1], None), ([], None))


@pytest.mark.parametrize("calc", CALCS, ids=["alone", "two outputs", "with the record"])
@pytest.mark.parametrize("timed", [False, True], ids=["without times", "with times"])
def test_an_error_names_a_record_that_is_parted_into_its_columns(calc: Expressions, timed: bool) -> None:
    with Harness(lambda stream: stream.transform("ratio", EXPRESSIONS, calc)) as harness:
        time = 7 if timed else None
        harness.push((4, 2), time)
        assert len(harness.take()) == 1
        with pytest.raises(
            UserCodeError, match=r"in expression '.*a / b.*' on record \(1, 0\).*ZeroDivision"
        ):
            harness.push((1, 0), time)
        with pytest.raises(
            UserCodeError, match=r"operator 'ratio' .* on record \(1, 0, 3\).*too many values"
        ):
            harness.push((1, 0, 3), time)


def test_columns_of_one_step_are_not_those_of_the_next() -> None:
    first = Expressions((Branch("(b, a)"),), ("a", "b"))
    second = Expressions((Branch("(a - b, a)", "a > b"),), ("a", "b"))

    def steps(stream: DataStream) -> DataStream:
        return stream.transform("swap", EXPRESSIONS, first).transform("calc", EXPRESSIONS, second)

    with Harness(steps) as harness:
        harness.push((1, 3))
        harness.push((3, 1), 5)
        assert harness.take() == [(2, 3)]


def test_values_that_are_no_rows_have_kinds_behind_expressions() -> None:
    calc = Expressions((Branch("v[0] + 1"),))
    with Harness(lambda stream: stream.transform("calc", EXPRESSIONS, calc, Types.INT())) as harness:
        harness.push(Row.of_kind(RowKind.DELETE, 1))
        harness.push(Row(2))
        assert harness.take_changes() == [(RowKind.DELETE, 2), (RowKind.INSERT, 3)]
