from __future__ import annotations

import msgspec
import pytest

from tidegate.backends.spi import Decisions
from tidegate.backends.storage import MemoryStorage
from tidegate.errors import StateFormatError
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.record import VERSION, Record, read_record
from tidegate.twophase.process import this_process

ORDERS = PipelineId("orders")


@pytest.fixture
def decisions() -> Decisions:
    return MemoryStorage().decisions


def record(version: int = VERSION) -> Record:
    lease = this_process(FencingTerm(1), RunId("first"))
    return Record(version, LineageId("lineage"), Branch(0), "running", lease, CheckpointId(0))


def test_a_pipeline_that_never_ran_has_no_record(decisions: Decisions) -> None:
    assert read_record(decisions, ORDERS) == (None, None)


def test_a_record_is_read_as_it_was_written(decisions: Decisions) -> None:
    decisions.create("orders/latest", msgspec.msgpack.encode(record()))

    assert read_record(decisions, ORDERS)[0] == record()


def test_a_record_of_a_newer_version_is_refused(decisions: Decisions) -> None:
    decisions.create("orders/latest", msgspec.msgpack.encode(record(version=7)))

    with pytest.raises(
        StateFormatError, match="orders/latest is of version 7, newer than supported 1; upgrade"
    ):
        read_record(decisions, ORDERS)


def test_a_record_of_something_else_is_refused(decisions: Decisions) -> None:
    decisions.create("orders/latest", b"\xc1")

    with pytest.raises(StateFormatError, match="orders/latest was not written by this version of tidegate"):
        read_record(decisions, ORDERS)
