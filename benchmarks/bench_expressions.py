"""Expressions in the generated loop against the same as functions, and programs with row kinds against those without.

The first two cases are the loop alone, in batches of a thousand: a filter and a projection of five columns. The others
are whole programs, inline, whose records are rows: the same program reads changes or insertions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.jobs import run_inline
from tidegate.common import Row, RowKind
from tidegate.connectors.base import RangeReader
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import Poll, ReaderContext
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.ids import OperatorUid
from tidegate.runtime.operators.codegen import Compiled, Stage, compile_stages
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions
from tidegate.runtime.operators.operator import Call

COUNT: Final = 200_000
AT_ONCE: Final = 1_000
ROWS: Final = 10_000
"""Different rows of the programs, few enough for the garbage collector not to be what is measured."""
RECORDS: Final = [(n, n % 7, float(n), f"a{n % 10}", n % 3) for n in range(COUNT)]
BATCHES: Final = [Batch(RECORDS[at : at + AT_ONCE]) for at in range(0, COUNT, AT_ONCE)]
INSERTIONS: Final = [Row(*record) for record in RECORDS[:ROWS]]
CHANGES: Final = [Row.of_kind(RowKind(record[0] % 4), *record) for record in RECORDS[:ROWS]]
KINDS: Final = [row.get_row_kind() for row in CHANGES] * (COUNT // ROWS)

COLUMNS: Final = ("id", "group", "amount", "name", "part")
PICKED: Final = Expressions((Branch("(part, name, amount, group, id)", "group > 2"),), COLUMNS)
MADE: Final = Expressions(
    (Branch("make(part, name, amount, group, id)", "group > 2"),), COLUMNS, {"make": Row}
)


def is_wanted(record: Any) -> bool:
    return bool(record[1] > 2)


def picked(record: Any) -> tuple[Any, ...]:
    return record[4], record[3], record[2], record[1], record[0]


def same(row: Row) -> Row:
    return row


def insertion(number: int) -> Row:
    return INSERTIONS[number % ROWS]


def change(number: int) -> Row:
    return CHANGES[number % ROWS]


class Changes(GeneratorSource[Row]):
    """Rows with their kinds."""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return _ChangesReader(self._read)


class _ChangesReader(RangeReader):
    def poll(self, limit: int) -> Poll:
        found = super().poll(limit)
        if isinstance(found, Batch):
            # Kinds repeat with the numbers, so any slice that begins with the first row's kind is the right one.
            first = found.values[0][0]
            found.kinds = KINDS[first : first + len(found)]
        return found


def build(rounds: int) -> Report:
    uid, size = OperatorUid("step"), {"records": COUNT}
    projection = Stage(uid, 1, Call("map", picked), outputs=(0,))
    functions = compile_stages(
        "functions", Stage(uid, 0, Call("filter", is_wanted), (projection,)), timed=False
    )
    computed = Stage(uid, 0, Call("expressions", expressions=PICKED), outputs=(0,))
    expressions = compile_stages("expressions", computed, timed=False)
    cases = [
        Case("projection and filter, functions", partial(run_loop, functions), size, COUNT),
        Case("projection and filter, expressions", partial(run_loop, expressions), size, COUNT),
        Case(
            "functions of rows, insertions",
            program(GeneratorSource(insertion, COUNT), by_functions),
            size,
            COUNT,
        ),
        Case("functions of rows, changes", program(Changes(change, COUNT), by_functions), size, COUNT),
        Case(
            "expressions of rows, insertions",
            program(GeneratorSource(insertion, COUNT), by_expressions),
            size,
            COUNT,
        ),
        Case("expressions of rows, changes", program(Changes(change, COUNT), by_expressions), size, COUNT),
    ]
    bars = [
        Bar("projection and filter, expressions", "projection and filter, functions", 2.0, "of its speed"),
        Bar("functions of rows, changes", "functions of rows, insertions", 1.15),
        Bar("expressions of rows, changes", "expressions of rows, insertions", 1.15),
    ]
    return compare("expressions", cases, bars, rounds=rounds, clock="cpu_s")


def run_loop(loop: Compiled) -> None:
    for batch in BATCHES:
        loop.run(batch.values, None, None)


def program(source: GeneratorSource[Row], steps: Callable[[DataStream], DataStream]) -> Callable[[], None]:
    def of(env: StreamExecutionEnvironment) -> DataStream:
        return steps(env.from_source(source))

    return partial(run_inline, of)


def by_functions(stream: DataStream) -> DataStream:
    return stream.filter(is_wanted).map(same)


def by_expressions(stream: DataStream) -> DataStream:
    return stream.transform("picked", EXPRESSIONS, MADE)


if __name__ == "__main__":
    main(build)
