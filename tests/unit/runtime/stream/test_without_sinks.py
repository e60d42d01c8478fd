"""Programs that end in no sink run for what their steps do and keep."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.datastream import (
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.runtime.accumulators import IntCounter
from tidegate.types import Types


class Latest(KeyedProcessFunction):
    """Keeps the highest number of each key in state, and sums in the result by how much it rose."""

    def open(self, runtime_context: Any) -> None:
        self.highest = runtime_context.get_state(ValueStateDescriptor("highest", Types.LONG(), 0))
        self.risen = IntCounter()
        runtime_context.add_accumulator("risen", self.risen)

    def process_element(self, value: int, ctx: Any) -> Any:
        if value > self.highest.value():
            self.risen.add(value - self.highest.value())
            self.highest.update(value)
        yield value


@pytest.mark.spec("003/DS-22")
def test_a_program_needs_no_sink(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_collection(list(range(1, 101)))
    numbers.key_by(lambda number: number % 10).process(Latest()).get_side_output(OutputTag("none"))

    result = anywhere.execute("numbers")

    assert (result.state, result.records) == ("finished", 100)
    assert result.get_accumulator_result("risen") == sum(range(91, 101))


def test_with_sinks_only_what_leads_to_them_runs() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    numbers = env.from_collection([1, 2, 3])
    numbers.key_by(lambda number: 0).process(Latest()).name("kept aside")
    assert "kept aside" in env.explain()

    numbers.print()

    assert "kept aside" not in env.explain()
