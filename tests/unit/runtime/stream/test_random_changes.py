"""A random program over random changes emits what a model of it does."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.runtime.stream.changes import DEALS, Notes, noted
from tidegate.common import Row, RowKind
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

ODD = OutputTag("odd")
TRIPLED = Expressions(
    (Branch("make(key, number * 3)", where="number != 4"),), ("key", "number"), {"make": Row}
)
SPLIT = Expressions((Branch(where="v[1] % 2 == 0"), Branch("make(*v)", "v[1] % 2", ODD)), names={"make": Row})

Change: TypeAlias = tuple[int, int, int]
"""A kind, a key and a number."""


class Same(KeyedProcessFunction):
    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:
        yield value


class Apart(ProcessFunction):
    """Odd numbers go to a side output."""

    def process_element(self, value: Row, ctx: Any) -> Iterator[Any]:
        yield (ODD, value) if value[1] % 2 else value


def turned(row: Row) -> Row:
    """A deletion where there was an insertion, and the other way round."""
    return Row.of_kind(RowKind(3 - row.get_row_kind()), *row)


def joined(stream: DataStream) -> DataStream:
    return stream.union(stream.get_side_output(ODD).map(turned))


def turn(change: Change) -> Change:
    kind, key, number = change
    return 3 - kind, key, number


def turn_odd(change: Change) -> list[Change]:
    return [turn(change) if change[2] % 2 else change]


STEPS: dict[str, tuple[Callable[[DataStream], DataStream], Callable[[Change], list[Change]]]] = {
    "map": (lambda stream: stream.map(turned), lambda each: [turn(each)]),
    "insertions": (
        lambda stream: stream.map(lambda row: Row(row[0], row[1] + 1)),
        lambda each: [(0, each[1], each[2] + 1)],
    ),
    "filter": (
        lambda stream: stream.filter(lambda row: row.get_row_kind() != row[1] % 4),
        lambda each: [each] if each[0] != each[2] % 4 else [],
    ),
    "flat map": (lambda stream: stream.flat_map(lambda row: [row, turned(row)]), lambda each: [each, turn(each)]),
    "process": (lambda stream: joined(stream.process(Apart())), turn_odd),
    "keyed process": (lambda stream: stream.key_by(lambda row: row[0]).process(Same()), lambda each: [each]),
    "expressions": (
        lambda stream: stream.transform("tripled", EXPRESSIONS, TRIPLED),
        lambda each: [(each[0], each[1], each[2] * 3)] if each[2] != 4 else [],
    ),
    "side outputs of expressions": (
        lambda stream: joined(stream.transform("split", EXPRESSIONS, SPLIT)),
        turn_odd,
    ),
    "union": (lambda stream: stream.union(stream.map(turned)), lambda each: [each, turn(each)]),
}  # fmt: skip
"""What each step does to a stream, and to one change."""

DEALT: dict[str, Callable[[DataStream], DataStream]] = {
    **DEALS,
    "hash": lambda stream: stream.key_by(lambda row: row[0]),
}
PROGRAMS = st.lists(
    st.one_of(st.sampled_from(sorted(STEPS)), st.tuples(st.sampled_from(sorted(DEALT)), st.integers(1, 3))),
    max_size=5,
)
COLLECTIONS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=20)


def run(env: StreamExecutionEnvironment, program: list[Any], changes: list[Change]) -> Counter[Any]:
    stream: DataStream = env.from_collection(
        [Row.of_kind(RowKind(kind), *values) for kind, *values in changes]
    )
    for step in program:
        if isinstance(step, str):
            stream = STEPS[step][0](stream)
        else:
            deal, parallelism = step
            stream = DEALT[deal](stream).filter(lambda row: True).set_parallelism(parallelism)
    with tempfile.TemporaryDirectory() as directory:
        stream.sink_to(Notes(Path(directory)))
        env.execute("random")
        return noted(Path(directory))


def expected(program: list[Any], changes: list[Change]) -> Counter[Any]:
    for step in program:
        if isinstance(step, str):
            changes = [result for change in changes for result in STEPS[step][1](change)]
        elif step[0] == "broadcast":
            changes = changes * step[1]
    return Counter((kind, (key, number)) for kind, key, number in changes)


def environment(target: str, parallelism: int) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "off",
            "parallelism.default": parallelism,
            "restart-strategy.type": "none",
        }
    )


@settings(deadline=None)
@given(program=PROGRAMS, changes=COLLECTIONS, parallelism=st.integers(1, 3))
def test_a_random_program_emits_what_its_model_does(
    program: list[Any], changes: list[Change], parallelism: int
) -> None:
    assert run(environment("inline", parallelism), program, changes) == expected(program, changes)


@pytest.mark.parametrize(
    "program",
    [
        ["union", ("hash", 2), "process", ("broadcast", 2), "expressions"],
        ["flat map", ("rebalance", 3), "side outputs of expressions", "keyed process", "filter"],
    ],
    ids=["broadcast", "rebalance"],
)
def test_it_does_so_in_worker_processes(program: list[Any]) -> None:
    changes = [(number % 4, number % 3, number % 10) for number in range(60)]

    assert run(environment("embedded", 2), program, changes) == expected(program, changes)
