from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import LocalStorage, MemoryStorage, open_storage
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.spark.datasource.batches import RETAINED, Batches
from tidegate.twophase.spi import Committable


def work(name: str) -> tuple[Committable, ...]:
    return (Committable(OperatorUid("0"), 0, CheckpointId(7), name.encode(), name, 1),)


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    return MemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


def test_whoever_decides_first_says_what_the_batch_is(storage: CheckpointStorage) -> None:
    batches = Batches(storage, "query")
    first = batches.decide(7, work("first"))

    assert batches.decide(7, work("second")) == first == batches.decided(7)
    assert first.work == work("first")
    assert batches.decided(6) is None
    assert Batches(storage, "other").decided(7) is None


def test_a_batch_that_is_withdrawn_is_decided_anew_once(storage: CheckpointStorage) -> None:
    batches = Batches(storage, "query")
    lost = batches.decide(7, work("lost"))
    batches.conclude(lost, "withdrawn")
    assert batches.decided(7) is None

    anew = batches.decide(7, work("anew"))
    batches.conclude(lost, "withdrawn")
    assert batches.decided(7) == anew == batches.decide(7, work("late"))


def test_a_settled_batch_stays_settled(storage: CheckpointStorage) -> None:
    batches = Batches(storage, "query")
    record = batches.decide(7, work("first"))
    batches.conclude(record, "settled")
    batches.conclude(record, "settled")
    batches.conclude(record, "withdrawn")
    found = batches.decided(7)

    assert found is not None
    assert (found.state, found.work) == ("settled", record.work)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20))
def test_no_two_attempts_at_a_part_have_the_same_slot(attempts: list[tuple[int, int]]) -> None:
    batches = Batches(MemoryStorage(), "query")
    taken = [(batch, part, batches.claim(batch, part=part, most=20)) for batch, part in attempts]

    assert len(set(taken)) == len(taken)
    assert all(index < attempts.count((batch, part)) for batch, part, index in taken)


def test_slots_run_out(storage: CheckpointStorage) -> None:
    batches = Batches(storage, "query")
    assert [batches.claim(3, part=1, most=2) for _ in range(2)] == [0, 1]
    with pytest.raises(
        UnavailableError,
        match=r"^batch 3 of query query: 2 attempts at part 1 failed, so all of its names are taken; find out "
        r"why they end, then increase the option attempts$",
    ):
        batches.claim(3, part=1, most=2)


def test_old_batches_are_forgotten_and_newer_ones_are_not(storage: CheckpointStorage) -> None:
    batches = Batches(storage, "query")
    for batch in (0, 1):
        batches.claim(batch, part=0, most=1)
        batches.conclude(batches.decide(batch, ()), "settled")
    batches.forget(RETAINED - 1)
    assert batches.decided(0) is not None
    batches.forget(RETAINED)

    assert batches.decided(0) is None
    assert {name.split("/")[1] for name in storage.blobs.list("")} == {"000000000001"}


def test_a_storage_without_decisions_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^hdfs://name:8020/x cannot keep the decisions of a query, as it creates no"
    ):
        Batches(open_storage("hdfs://name:8020/x"), "query")


def test_a_record_of_another_version_is_refused() -> None:
    storage = MemoryStorage()
    storage.decisions.create("query/000000000007/decision", msgspec.msgpack.encode({"v": 2}))
    with pytest.raises(
        StateFormatError, match=r"^the decision of a batch cannot be read \(.*\); expected version 1; run"
    ):
        Batches(storage, "query").decided(7)


def test_a_record_that_vanishes_while_it_is_asked_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    contents = type(storage.decisions)
    monkeypatch.setattr(contents, "swap", lambda self, name, tag, data: False)
    with pytest.raises(
        UnavailableError,
        match=r"^batch 7 of query query: its record was deleted while the query ran; expected",
    ):
        Batches(storage, "query").decide(7, ())
