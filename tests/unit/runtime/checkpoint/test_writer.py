from __future__ import annotations

import pytest

from tests.unit.runtime.checkpoint.full import Full
from tidegate.backends.storage import MemoryStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.collection import CollectionSource
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId, PipelineId
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.writer import CheckpointWriter
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.job import Program, Startup
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions

ONE, TWO = CheckpointId(1), CheckpointId(2)


@pytest.fixture
def storage() -> Full:
    return Full(MemoryStorage())


@pytest.fixture
def writer(storage: Full) -> CheckpointWriter:
    """Writes for a pipeline that is owned."""
    step = Transformation(SOURCE, "source", CollectionSource([1]), uid="source")
    program = Program("orders", PipelineId("orders"), (step,), JobOptions(), parallelism=1)
    startup = Startup(program, storage, SYSTEM_CLOCK, print)
    startup.acquire()
    return CheckpointWriter(startup.pipeline, program.graph(None), SYSTEM_CLOCK, print)


def test_a_decision_that_a_full_storage_did_not_take_is_no_decision(
    storage: Full, writer: CheckpointWriter
) -> None:
    storage.full = {"swap"}
    failed = writer.decide(ONE)

    assert isinstance(failed, cp.MetadataFailed)
    with pytest.raises(UnavailableError, match="no space left"):
        raise failed.error

    storage.full = set()
    assert writer.decide(TWO) == cp.Swapped(TWO)


def test_a_decision_nobody_knows_the_outcome_of_is_not_guessed(
    storage: Full, writer: CheckpointWriter
) -> None:
    storage.full = {"after swap"}

    with pytest.raises(UnavailableError, match="no space left"):
        writer.decide(ONE)


def test_a_number_that_cannot_be_written_down_is_not_used(storage: Full, writer: CheckpointWriter) -> None:
    trigger = cp.Trigger(CheckpointId(3), None)
    storage.full = {"swap"}
    failed = writer.number(trigger)

    assert isinstance(failed, cp.MetadataFailed)
    with pytest.raises(UnavailableError, match="no space left"):
        raise failed.error

    storage.full = set()
    assert writer.number(trigger) == trigger


def test_metadata_is_dated_no_earlier_than_what_it_is_about(writer: CheckpointWriter) -> None:
    ahead_ms = SYSTEM_CLOCK.now_ms() + 3_600_000
    dates = []
    for not_before_ms in (ahead_ms, 0):
        writer.write(cp.WriteMetadata(ONE, (), ()), {}, not_before_ms)
        assert writer.written is not None
        dates.append(writer.written.created_ms)

    assert dates[0] == ahead_ms > dates[1]
