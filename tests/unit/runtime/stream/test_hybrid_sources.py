"""Sources one after the other, in a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate.common import WatermarkStrategy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.hybrid_source import HybridSource
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

Env = StreamExecutionEnvironment


def live(end: int) -> GeneratorSource[int]:
    return GeneratorSource(lambda number: end + number, count=300, splits=4)


def test_history_is_read_before_what_is_live_and_nothing_twice(anywhere: Env) -> None:
    history = GeneratorSource(int, count=700, splits=5)
    source = HybridSource.builder(history).add_source(live).build()

    values = list(
        anywhere.from_source(source, WatermarkStrategy.no_watermarks(), "all").execute_and_collect()
    )

    assert sorted(values) == list(range(1_000))


def test_a_job_that_fails_in_the_second_stage_goes_on_in_it(anywhere: Env, tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    def fail_once(value: int) -> int:
        if value == 31_000 and not failed.exists():
            failed.touch()
            raise ValueError("once")
        return value

    source = HybridSource((NumberSequenceSource(0, 29_999), NumberSequenceSource(30_000, 31_999)))
    anywhere.configure(_settings({"restart-strategy.fixed-delay.attempts": 3}))
    stream = anywhere.from_source(source, WatermarkStrategy.no_watermarks(), "all").map(fail_once)

    assert sorted(stream.execute_and_collect()) == list(range(32_000))
    assert failed.exists()


def _settings(values: dict[str, Any]) -> Any:
    from tidegate.common import Configuration

    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.interval": "50 ms",
        "restart-strategy.fixed-delay.delay": "10 ms",
        **values,
    }.items():
        configuration.set_string(key, str(value))
    return configuration
