"""Savepoints stand alone: what they were made from can be deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, files_of
from tidegate.runtime.checkpoint.savepoint import SavepointFormat, copied, open_snapshot, write_savepoint
from tidegate.runtime.operators.operator_list import OperatorList, read, written

QUEUE = OperatorList("queue", tuple(b"item %d" % number for number in range(10_000)))


@pytest.mark.parametrize("form", ["native", "canonical"])
def test_operator_lists_in_files_are_part_of_a_savepoint(tmp_path: Path, form: SavepointFormat) -> None:
    storage = MemoryStorage()
    files = StorageFiles(storage.blobs, "run/shared")
    held = written(QUEUE, files)
    assert len(held.files) == 1
    state = OperatorState(OperatorUid("wait"), "wait", 1, 128, lists=((held,),))
    first = Manifest(
        *(PipelineId("p"), LineageId("l"), Branch(0), RunId("run"), CheckpointId(1), None, 0), (state,), ()
    )
    assert files_of(first) == set(held.files)
    write_savepoint(first, files, tmp_path / "savepoint", "heap", form)
    storage.blobs.delete(held.files)

    opened = open_snapshot(tmp_path / "savepoint")
    again = MemoryStorage()
    target = StorageFiles(again.blobs, "run-2/shared")
    (operator,) = copied(opened.manifest.operators, StorageFiles(opened.storage.blobs, ""), target)
    moved = operator.lists[0][0]
    assert set(moved.files) == set(again.blobs.list(""))
    assert read(moved, target) == QUEUE
