"""Rows as bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.backends.keyed import KeyedStore, ValueStateDescriptor
from tidegate.backends.keyed.address import ROWS
from tidegate.backends.keyed.row import pack_slots, unpack_slots
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.types import Types

LENGTHS = [0, 1, 250, 252, 255, 256, 1_100, 65_533, 65_536, 70_000]


@pytest.mark.parametrize("names", [["one"], ["one", "two"]], ids=["one slot", "two slots"])
def test_rows_are_the_same_bytes_however_they_are_packed(
    open_store: Callable[..., KeyedStore], storage: MemoryStorage, names: list[str]
) -> None:
    store = open_store()
    states = [store.value_state(ValueStateDescriptor(name, Types.STRING())) for name in names]
    for length in LENGTHS:
        store.bind(length)
        for state in states:
            state.update("x" * length)
    handle = store.snapshot(CheckpointId(1), None).finish()
    entries = read_segment(StorageFiles(storage.blobs, "run"), handle.segments[-1]).entries
    rows = [value for at, value in entries if value is not None and at[2:4] == ROWS.to_bytes(2)]
    assert len(rows) == len(LENGTHS)
    assert [pack_slots(unpack_slots(row)) for row in rows] == rows
    again = open_store(handle)
    restored = again.value_state(ValueStateDescriptor(names[-1], Types.STRING()))
    for length in LENGTHS:
        again.bind(length)
        assert restored.value() == "x" * length
