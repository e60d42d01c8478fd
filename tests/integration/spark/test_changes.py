"""Changes pass the exchanges between the levels of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from tests.unit.runtime.stream import changes
from tidegate.datastream import StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture(autouse=True)
def functions_travel_by_value() -> Iterator[None]:
    """Executors cannot import test modules."""
    cloudpickle.register_pickle_by_value(changes)
    yield
    cloudpickle.unregister_pickle_by_value(changes)


def test_changes_pass_every_exchange(tmp_path: Path) -> None:
    settings = {
        "pipeline.progress": "off",
        "execution.spark.epoch-records": 1_000,
        "restart-strategy.fixed-delay.attempts": 0,
        "state.checkpoints.dir": str(tmp_path / "state"),
    }
    changes.run(StreamExecutionEnvironment.on_spark("local[2]", settings).set_parallelism(2), tmp_path)

    changes.check(tmp_path, parallelism=2)
