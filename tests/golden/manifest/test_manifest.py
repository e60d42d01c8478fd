"""Checkpoint metadata of every version so far still loads, and what is written now is what is on record."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidegate.backends.spi import BaseHandle, InlineChunk, KeyedHandle, StoredChunk
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, SplitId
from tidegate.keys import KeyGroupRange
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, Unsettled, decode, encode
from tidegate.runtime.graph.shapes import Shape
from tidegate.runtime.operators.event_time import EventTime, SplitTime
from tidegate.runtime.operators.operator_list import OperatorList, Piece
from tidegate.twophase.spi import Committable

HERE = Path(__file__).parent
SINK = OperatorUid("files")
WRITTEN = Manifest(
    pipeline=PipelineId("orders"),
    lineage=LineageId("9f2c0a1b"),
    branch=Branch(2),
    run=RunId("0123456789abcdef"),
    checkpoint=CheckpointId(17),
    parent=CheckpointId(12),
    created_ms=1_700_000_000_000,
    operators=(
        OperatorState(
            OperatorUid("source-1"), "source", 2, 128, coordinator=b"\x80", splits=(b"\x01", b"\x02")
        ),
        OperatorState(
            OperatorUid("totals"),
            "process",
            2,
            128,
            keyed=(
                KeyedHandle(
                    KeyGroupRange(0, 64),
                    BaseHandle("rocksdb", 1, (("000012.sst", StoredChunk("run/shared/a", 4096, 2**63)),)),
                    (InlineChunk(b"segment"), StoredChunk("run/shared/b", 70_000, 1)),
                ),
                KeyedHandle(KeyGroupRange(64, 128), None, ()),
            ),
        ),
        OperatorState(SINK, "sink", 2, 128, writers=(b"writer 0", b"writer 1")),
    ),
    unsettled=(
        Unsettled(CheckpointId(16), (Committable(SINK, 0, CheckpointId(15), b"\x00\xff", "/out/part-0", 3),)),
        Unsettled(CheckpointId(17), ()),
    ),
)


WITH_LISTS = msgspec.structs.replace(
    WRITTEN,
    operators=(
        *WRITTEN.operators,
        OperatorState(
            OperatorUid("ask"),
            "async wait",
            2,
            128,
            lists=(
                (OperatorList("queue", (b"\x01", b"\x02")), OperatorList("rules", (b"r",), "broadcast")),
                (OperatorList("queue", ()), OperatorList("rules", (b"r",), "broadcast")),
            ),
        ),
    ),
)
"""What version 1 can hold since operators have lists."""


WITH_FILES = msgspec.structs.replace(
    WRITTEN,
    operators=(
        OperatorState(
            OperatorUid("totals"),
            "process",
            1,
            128,
            keyed=(
                KeyedHandle(
                    KeyGroupRange(0, 128), None, (InlineChunk(b"segment"),), StoredChunk("run/shared/j", 9, 8)
                ),
            ),
            lists=(
                (
                    OperatorList(
                        "rules",
                        (),
                        stored="any (any 1)",
                        pieces=(Piece(StoredChunk("run/shared/l", 7, 6), 2, 5),),
                    ),
                ),
            ),
        ),
    ),
    unsettled=(),
    batch=True,
    claimed=("before/chk-3/_metadata",),
)
"""What version 1 can hold since lists lie in files, changes have journals, and snapshots can be claimed."""


OVERTAKEN = msgspec.structs.replace(
    WITH_FILES,
    operators=(
        msgspec.structs.replace(
            WITH_FILES.operators[0],
            in_flight=(InlineChunk(b"lanes"), StoredChunk("run/shared/f", 30_000, 4)),
        ),
    ),
)
"""Version 2 holds what was on its way to operators, which version 1 would have left behind."""


WITH_TIMES = msgspec.structs.replace(
    OVERTAKEN,
    operators=(
        msgspec.structs.replace(
            OVERTAKEN.operators[0],
            times=(
                EventTime(0, 1_700, (SplitTime(SplitId("a-0"), 1_699, False, 1_800, {"newest": b"\x01"}),)),
            ),
        ),
    ),
)
"""What version 2 can hold since event time is kept, which a reader that knows of none lets begin anew."""


WITH_SHAPES = msgspec.structs.replace(
    WITH_TIMES,
    operators=(
        msgspec.structs.replace(
            WITH_TIMES.operators[0],
            shape=Shape(True, "process", "Total", "String", ("< source GeneratorSource", "> window Peak")),
        ),
    ),
)
"""What version 2 can hold since checkpoints say what uids stood for, which earlier readers pass over."""


FIRING = msgspec.structs.replace(
    WITH_SHAPES,
    operators=(
        msgspec.structs.replace(
            WITH_SHAPES.operators[0], times=(EventTime(0, 1_700, arrived=1_900), EventTime(1, 1_900))
        ),
    ),
)
"""What version 2 can hold since barriers pass between timers of one watermark, which earlier readers pass over: they
fire the rest with the next watermark."""


@pytest.mark.parametrize(("name", "manifest"), [("v1", WRITTEN), ("v1b", WITH_LISTS), ("v1c", WITH_FILES)])
def test_metadata_of_version_1_loads(name: str, manifest: Manifest) -> None:
    assert decode((HERE / name).read_bytes(), name) == manifest


@pytest.mark.parametrize(("name", "manifest"), [("v2", OVERTAKEN), ("v2b", WITH_TIMES)])
def test_metadata_of_version_2_loads(name: str, manifest: Manifest) -> None:
    assert decode((HERE / name).read_bytes(), name) == manifest


@pytest.mark.parametrize(("name", "manifest"), [("v2c", WITH_SHAPES), ("v2d", FIRING)])
def test_the_version_written_now_is_on_record(name: str, manifest: Manifest) -> None:
    assert (HERE / name).read_bytes() == encode(manifest)
    assert decode((HERE / name).read_bytes(), name) == manifest
