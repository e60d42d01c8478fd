"""Programs answer tuples where they declared rows, and the next step gets rows."""

from __future__ import annotations

from typing import Any

from tidegate.common import Row, Types
from tidegate.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

PERSON = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
LATE = OutputTag("late", PERSON)


class Sort(ProcessFunction):
    def process_element(self, value: Row, ctx: Any) -> Any:
        yield (LATE, (value.id, "late")) if value.id > 1 else (value.id, "early")


def test_what_a_program_gives_comes_as_rows(anywhere: StreamExecutionEnvironment) -> None:
    people = anywhere.from_collection([(1, "ada"), {"id": 2, "name": "bob"}], type_info=PERSON)
    shouted = people.key_by(lambda row: row.id).map(
        lambda row: (row.id, row.name.upper()), output_type=PERSON
    )
    named = shouted.rebalance().map(lambda row: f"{row.id} {row.name}")

    assert sorted(named.execute_and_collect()) == ["1 ADA", "2 BOB"]


def test_each_output_of_a_step_has_the_rows_it_declares(anywhere: StreamExecutionEnvironment) -> None:
    people = anywhere.from_collection([(1, "ada"), (2, "bob")], type_info=PERSON)
    sorted_out = people.process(
        Sort(), output_type=Types.ROW_NAMED(["n", "when"], [Types.INT(), Types.STRING()])
    )
    late = sorted_out.get_side_output(LATE).rebalance().map(lambda row: row.name)
    early = sorted_out.rebalance().map(lambda row: row.when)

    assert sorted(late.union(early).execute_and_collect()) == ["early", "late"]
