"""What functions measure on Spark, where each epoch opens them anew."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.connectors.blackhole import BlackHoleSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.runtime.accumulators import Histogram, IntCounter

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def measuring(fails: Any = None) -> MapFunction:
    """Counts and looks at what passes; travels by value."""

    class Measuring(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.number, self.digits = IntCounter(), Histogram()
            runtime_context.add_accumulator("numbers", self.number)
            runtime_context.add_accumulator("digits", self.digits)
            metrics = runtime_context.get_metrics_group()
            self.seen, self.sizes = metrics.counter("seen"), metrics.distribution("sizes")

        def map(self, value: int) -> int:
            if fails is not None and value == 150 and not fails.exists():
                fails.touch()
                raise RuntimeError("once")
            self.number.add(1)
            self.digits.add(len(str(value)))
            self.seen.inc()
            self.sizes.update(value)
            return value

    return Measuring()


def measured(tmp_path: Any, fails: Any = None) -> Any:
    env = StreamExecutionEnvironment.on_spark(
        "local[2]",
        {
            "parallelism.default": 2,
            "pipeline.progress": "off",
            "execution.spark.epoch-records": 40,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "restart-strategy.fixed-delay.delay": "1 ms",
        },
    )
    numbers = env.from_source(GeneratorSource(int, count=200, splits=2))
    numbers.map(measuring(fails)).uid("measures").sink_to(BlackHoleSink())
    return env.execute("measured")


def test_what_is_counted_in_many_epochs_is_one_sum(tmp_path: Any) -> None:
    result = measured(tmp_path)

    assert result.checkpoint > 3
    assert result.accumulators == {"numbers": 200, "digits": {1: 10, 2: 90, 3: 100}}
    seen = [result.metrics[f"measures.{n}.seen"] for n in range(2)]
    sizes = [result.metrics[f"measures.{n}.sizes"] for n in range(2)]
    assert seen == [each["count"] for each in sizes] == [100, 100]
    assert [sum(each[key] for each in sizes) for key in ("sum", "min")] == [sum(range(200)), 100]


def test_after_a_restart_accumulators_hold_what_the_last_attempt_has_done(tmp_path: Any) -> None:
    result = measured(tmp_path, tmp_path / "failed")

    assert result.restarts == 1
    assert 0 < result.accumulators["numbers"] < 200
