from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.backends.spi import BaseHandle, InlineChunk, KeyedHandle, StoredChunk
from tidegate.errors import InternalError, StateCorruptError, StateFormatError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.keys import KeyGroupRange
from tidegate.runtime.checkpoint.manifest import (
    Manifest,
    OperatorState,
    Unsettled,
    decode,
    encode,
    files_of,
    metadata_name,
    settled_name,
)
from tidegate.twophase.spi import Committable

NAME = "run/chk-7/_metadata"
WORK = Committable(OperatorUid("sink"), 1, CheckpointId(6), b"\x00payload", "part-1", 12)
HALF = KeyedHandle(
    KeyGroupRange(0, 64),
    BaseHandle("rocksdb", 1, (("a.sst", StoredChunk("run/shared/a", 10, 99)), ("b", InlineChunk(b"b")))),
    (StoredChunk("run/shared/s", 3, 1), InlineChunk(b"tail")),
)
REST = KeyedHandle(KeyGroupRange(64, 128), None, (StoredChunk("run/shared/a", 10, 99),))
MANIFEST = Manifest(
    PipelineId("orders"),
    LineageId("9f2c"),
    Branch(1),
    RunId("run"),
    CheckpointId(7),
    CheckpointId(5),
    1_700_000_000_000,
    (
        OperatorState(OperatorUid("source"), "source", 2, 128, coordinator=b"splits", splits=(b"one",)),
        OperatorState(OperatorUid("count"), "count", 2, 128, keyed=(HALF, REST)),
        OperatorState(OperatorUid("sink"), "sink", 2, 128, writers=(b"w0", b"w1")),
    ),
    (Unsettled(CheckpointId(6), (WORK,)), Unsettled(CheckpointId(7), ())),
)


def test_what_is_written_is_read() -> None:
    assert decode(encode(MANIFEST), NAME) == MANIFEST


def test_files_are_named_once_and_inline_pieces_are_none() -> None:
    assert files_of(MANIFEST) == {"run/shared/a", "run/shared/s"}


def test_names_follow_run_and_checkpoint() -> None:
    assert metadata_name(RunId("r"), CheckpointId(4)) == "r/chk-4/_metadata"
    assert settled_name(RunId("r"), CheckpointId(4)) == "r/chk-4/_settled"


def test_an_operator_is_found_by_uid() -> None:
    found = MANIFEST.operator(OperatorUid("count"))

    assert found is not None
    assert found.keyed == (HALF, REST)
    assert MANIFEST.operator(OperatorUid("other")) is None


@given(at=st.integers(14, len(encode(MANIFEST)) - 1), bit=st.integers(0, 7))
def test_any_changed_bit_of_the_body_is_found(at: int, bit: int) -> None:
    data = bytearray(encode(MANIFEST))
    data[at] ^= 1 << bit

    with pytest.raises(
        StateCorruptError, match=r"run/chk-7/_metadata is damaged.*restore an older checkpoint"
    ):
        decode(bytes(data), NAME)


@given(length=st.integers(0, len(encode(MANIFEST)) - 1))
def test_a_truncated_file_is_never_read(length: int) -> None:
    with pytest.raises(StateCorruptError, match="restore an older checkpoint"):
        decode(encode(MANIFEST)[:length], NAME)


def test_something_else_is_not_metadata() -> None:
    with pytest.raises(StateCorruptError, match="run/chk-7/_metadata is not checkpoint metadata"):
        decode(b"PK\x03\x04 this is an archive", NAME)


def test_a_newer_version_says_what_to_do() -> None:
    data = bytearray(encode(MANIFEST))
    data[5] = 9

    with pytest.raises(
        StateFormatError,
        match="run/chk-7/_metadata: metadata version 9 is newer than supported 2; upgrade tidegate or restore",
    ):
        decode(bytes(data), NAME)


@pytest.mark.parametrize(
    "groups",
    [
        [KeyGroupRange(0, 64)],
        [KeyGroupRange(0, 64), KeyGroupRange(32, 128)],
        [KeyGroupRange(1, 128)],
        [KeyGroupRange(0, 128), KeyGroupRange(0, 128)],
    ],
    ids=["missing", "overlapping", "late", "double"],
)
def test_key_groups_that_are_missing_or_double_are_never_written(groups: list[KeyGroupRange]) -> None:
    keyed = tuple(KeyedHandle(each, None, ()) for each in groups)
    wrong = OperatorState(OperatorUid("count"), "count", 2, 128, keyed=keyed)

    with pytest.raises(InternalError, match="checkpoint 7 breaks key_groups_are_covered_once: count has"):
        encode(msgspec.structs.replace(MANIFEST, operators=(wrong,)))


def test_a_uid_that_is_there_twice_is_never_written() -> None:
    twice = (MANIFEST.operators[0], MANIFEST.operators[0])

    with pytest.raises(InternalError, match=r"checkpoint 7 breaks uids_are_unique: \['source', 'source'\]"):
        encode(msgspec.structs.replace(MANIFEST, operators=twice))


@pytest.mark.parametrize("numbers", [[8], [7, 6], [6, 6]], ids=str)
def test_work_of_the_future_or_out_of_order_is_never_written(numbers: list[int]) -> None:
    work = tuple(Unsettled(CheckpointId(number), ()) for number in numbers)

    with pytest.raises(InternalError, match="checkpoint 7 breaks work_is_not_from_the_future"):
        encode(msgspec.structs.replace(MANIFEST, unsettled=work))
