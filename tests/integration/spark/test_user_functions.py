"""State and news of checkpoints for every kind of user function, epoch by epoch and through a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.unit.runtime.stream import kinds
from tests.unit.runtime.stream.kinds import KINDS, NUMBERS, Kept, Listed, calls, last_count
from tidegate.common import WatermarkStrategy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import DataStream, MapFunction, StreamExecutionEnvironment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning"),
]

INTERFACES = {"CheckpointedFunction": Kept, "ListCheckpointed": Listed}
EPOCH = 15


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Executors cannot import test modules."""
    for module in (request.module, kinds):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, kinds):
        cloudpickle.unregister_pickle_by_value(module)


class Failing(MapFunction):
    """Fails once, in the last epoch."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def map(self, value: int) -> int:
        failed = Path(self.directory) / "failed"
        if value == NUMBERS - 5 and not failed.exists():
            failed.touch()
            raise OSError("once")
        return value


def _nowhere(value: Any) -> None:
    pass


@pytest.mark.parametrize("interface", INTERFACES)
def test_functions_of_all_kinds_keep_state_from_epoch_to_epoch(tmp_path: Path, interface: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "local[2]",
            "pipeline.progress": "off",
            "parallelism.default": 1,
            "execution.spark.epoch-records": EPOCH,
            "execution.checkpointing.interval": "10 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    source = GeneratorSource(lambda number: number, count=NUMBERS, splits=1)
    stream = env.from_source(source, times).map(Failing(str(tmp_path)))
    for name, (cls, build, _) in KINDS.items():
        function: Any = type(cls.__name__, (INTERFACES[interface], cls), {})()
        function.directory, function.name = str(tmp_path), name
        ended = build(stream, function)
        if isinstance(ended, DataStream):
            ended.add_sink(_nowhere)
    env.execute()

    assert (tmp_path / "failed").exists()
    for name, (_, _, expected) in KINDS.items():
        assert last_count(str(tmp_path), name) == expected, name
        assert any(calls(str(tmp_path), name, "restored")), name
        completed = calls(str(tmp_path), name, "completed")
        assert completed == sorted(completed), name
        assert set(completed) >= {1, 2, 3}, name
