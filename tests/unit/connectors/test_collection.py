"""Collections in and out: copied when made, split in order, types kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.base import RangeSplit
from tidegate.connectors.collection import CollectionSource, CollectSink, read_collected
from tidegate.connectors.collection.serde import Frames, frames_in
from tidegate.connectors.spi import ReaderContext, SupportsBranch, SupportsCommit, SupportsRanges
from tidegate.elements import Batch, RowKind
from tidegate.errors import RecordError, StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId, SplitId
from tidegate.row import Row
from tidegate.twophase.spi import Committable, CommitterContext, WriterContext
from tidegate.types import Types


def test_each_reader_gets_one_contiguous_part(deal: Any) -> None:
    enumerator = CollectionSource("abcde").open_enumerator(deal, None)
    enumerator.request(0)
    enumerator.request(1)

    assert deal.assigned == {0: [RangeSplit(SplitId("0-2"), 0, 2)], 1: [RangeSplit(SplitId("2-5"), 2, 5)]}


def test_changing_the_items_later_changes_nothing() -> None:
    items = [[1]]
    source = CollectionSource(items)
    items[0].append(2)
    source.items()[0].append(3)

    assert source.items() == [[1]]


def test_items_must_be_of_the_declared_type() -> None:
    with pytest.raises(RecordError, match="expected long"):
        CollectionSource([1, "two"], Types.LONG())


def test_an_item_that_cannot_travel_is_named() -> None:
    with pytest.raises(
        RecordError, match=r"item 1 \(lock\) cannot be sent to another process; use plain values"
    ):
        CollectionSource([1, threading.Lock()])


def test_abilities_are_what_they_promise() -> None:
    assert isinstance(CollectionSource([]), SupportsRanges)
    assert isinstance(CollectSink("."), SupportsCommit)
    assert isinstance(CollectSink("."), SupportsBranch)
    assert CollectSink(".").on_branch == "refuse"
    assert CollectSink(".").delivery == "exactly-once"


def test_collected_values_come_back_in_order_of_checkpoint_and_subtask(
    tmp_path: Path,
    writer_context: Callable[..., WriterContext],
    committer_context: CommitterContext,
    committable: Callable[..., Committable],
) -> None:
    sink = CollectSink(str(tmp_path))
    work = []
    for checkpoint, subtask, value in ((10, 0, "d"), (2, 1, "b"), (2, 0, "a"), (9, 3, ("c", 1))):
        writer = sink.open_writer(writer_context(subtask))
        writer.write(Batch([value]))
        work.append(committable(writer.prepare(CheckpointId(checkpoint))))
    sink.open_committer(committer_context).commit(work)
    (tmp_path / "collected-notes.frames").write_text("somebody else's")

    assert list(read_collected(tmp_path)) == ["a", "b", ("c", 1), "d"]


def test_rows_keep_their_kind(
    tmp_path: Path,
    writer_context: Callable[..., WriterContext],
    committer_context: CommitterContext,
    committable: Callable[..., Committable],
) -> None:
    sink = CollectSink(str(tmp_path))
    row = Row.of([1, "a"], ["id", "name"], RowKind.DELETE)
    writer = sink.open_writer(writer_context())
    writer.write(Batch([row], kinds=[RowKind.DELETE]))
    sink.open_committer(committer_context).commit([committable(writer.prepare(CheckpointId(1)))])

    (found,) = read_collected(tmp_path)
    assert found == row
    assert found.get_row_kind() is RowKind.DELETE


def test_an_empty_directory_holds_nothing(tmp_path: Path) -> None:
    assert list(read_collected(tmp_path)) == []


def test_a_file_of_another_version_is_refused() -> None:
    with pytest.raises(StateFormatError, match=r"collected file x\.frames is not of version 1"):
        list(frames_in(b"TGF2....", "x.frames"))


@pytest.mark.parametrize("cut", [5, 9], ids=["in the length", "in the batch"])
def test_a_file_that_ends_early_is_refused(cut: int) -> None:
    data = Frames().encode(["value"])

    with pytest.raises(StateCorruptError, match=r"collected file x\.frames is truncated; run the job again"):
        list(frames_in(data[:cut], "x.frames"))


@pytest.mark.parametrize("last", [9_999, ("last", [1]), date(2024, 2, 29)], ids=["int", "tuple", "date"])
def test_every_range_of_a_long_collection_is_read_as_it_was_given(
    last: Any, reader_context: ReaderContext
) -> None:
    given = [*range(9_999), last]
    reader = CollectionSource(given).open_reader(reader_context)
    reader.add_splits([RangeSplit(SplitId("low"), 0, 5_000), RangeSplit(SplitId("high"), 5_000, 10_000)])
    reader.no_more_splits()

    found: dict[str, list[Any]] = {"low": [], "high": []}
    while isinstance(batch := reader.poll(1_500), Batch):
        assert batch.origin is not None
        found[batch.origin.split] += batch.values

    assert found == {"low": given[:5_000], "high": given[5_000:]}
    assert type(found["high"][-1]) is type(last)
