"""What earlier versions wrote still loads, and what is written now is what is on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.connectors.base import ListEnumerator, PendingFile, RangeSplit, pending_files
from tidegate.connectors.base.part_file import HeldFile
from tidegate.connectors.base.pending_files import HeldFiles, PendingFiles, held_files
from tidegate.connectors.collection.serde import Frames, frames_in
from tidegate.connectors.database.split import TableSplit
from tidegate.connectors.database.statements import Chunk, Shape
from tidegate.connectors.database.writer import DatabaseWork, decode_work
from tidegate.connectors.files import TextFormat
from tidegate.connectors.files.enumerator import Files, Look, WatchingEnumerator
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.functions.split import FunctionSplit, pack, unpack
from tidegate.elements import Idle, Watermark
from tidegate.ids import CheckpointId, OperatorUid, SplitId
from tidegate.twophase.spi import Committable

HERE = Path(__file__).parent
SPLITS = [RangeSplit(SplitId("0/2"), 4, 10), RangeSplit(SplitId("1/2"), 1, None, 2)]
FILE = PendingFile("9f2c.0-1-7-a1.pending", "part-9f2c.0-0a1b2c3d-1-7.jsonl", 12, "00000000000000ff", 3)
SPANNED = PendingFile(
    "9f2c.0-1-7-a1-1.pending",
    "day=1/part-9f2c.0-0a1b2c3d-1-5.jsonl",
    7,
    "0f",
    1,
    ("9f2c.0-1-open-a1-1.inprogress",),
)
HELD = HeldFile(
    "orders.sink/9f2c.0-1-open-a1-1.inprogress",
    "day=1",
    "day=1/part-9f2c.0-0a1b2c3d-1-5.jsonl",
    5,
    2,
    1_000,
    2_000,
)
VALUES = [(1, "a"), None, 2.5, [True, b"\x00"]]

PART = FileSplit(id=SplitId("/data/log:64"), path="/data/log", at=70, stop=128, begun=True)
EMITTED: list[Any] = [("a", 5), ((1, b"\x00"), None), Watermark(7), Idle(True)]
INSTANCE = FunctionSplit(
    id=SplitId("1"), items=(b"\x01", b"\x02"), emitted=tuple(pack(each) for each in EMITTED), returned=True
)


STAGED = DatabaseWork(
    *(
        7,
        "9f2c.0.1-1-7-a1.pending",
        Shape("shop.orders", ("id", "note"), ("id",)),
        "tidegate_stage_orders_0f",
    ),
    chunks=(Chunk(deletes=True), Chunk(unchanged=("1",))),
)
PREPARED = DatabaseWork(
    8, "9f2c.0.1-1-8-a1.pending", Shape("orders", ("id",)), gid="tidegate:0f:9f2c.0.1-1-8-a1.pending"
)
ROWS = TableSplit(SplitId("1-500"), 1, 500, offset=20)


def watching(restored: bytes | None = None) -> WatchingEnumerator:
    return WatchingEnumerator(Deal(), Files([], TextFormat(), 1), 1, restored)


def watched() -> bytes:
    watcher = watching()
    watcher.discovered(Look({"/data/log": [PART], "/data/a": []}, []))
    return watcher.snapshot(CheckpointId(1))


class Deal:
    parallelism = 1
    owner = ""

    def __init__(self) -> None:
        self.assigned: list[Any] = []

    def assign(self, reader: int, splits: Any) -> None:
        self.assigned.extend(splits)

    def no_more_splits(self, reader: int) -> None:
        pass

    def send_event(self, reader: int, event: bytes) -> None:
        pass


def test_a_split_of_version_1_loads() -> None:
    data = (HERE / "range-split-1.msgpack").read_bytes()

    assert msgspec.msgpack.decode(data, type=RangeSplit) == SPLITS[1]


def test_a_part_of_a_file_of_version_1_loads() -> None:
    data = (HERE / "file-split-1.msgpack").read_bytes()

    assert msgspec.msgpack.decode(data, type=FileSplit) == PART


def test_an_instance_of_a_source_function_of_version_1_loads() -> None:
    data = (HERE / "function-split-1.msgpack").read_bytes()
    loaded = msgspec.msgpack.decode(data, type=FunctionSplit)

    assert (loaded.items, loaded.returned) == (INSTANCE.items, True)
    assert [unpack(each) for each in loaded.emitted] == EMITTED


def test_the_splits_of_an_enumerator_of_version_1_load() -> None:
    deal = Deal()
    data = (HERE / "list-enumerator-1.msgpack").read_bytes()

    ListEnumerator(deal, [], RangeSplit, data).request(0)

    assert deal.assigned == SPLITS


def test_what_a_watched_directory_noted_in_version_1_loads() -> None:
    watcher = watching((HERE / "watched-files-1.msgpack").read_bytes())

    assert msgspec.msgpack.decode(watcher.snapshot(CheckpointId(2)), type=dict[str, Any]) == {
        "v": 1,
        "seen": ["/data/a", "/data/log"],
        "pending": [msgspec.to_builtins(PART)],
    }


def test_a_pending_file_of_version_1_loads() -> None:
    data = (HERE / "pending-file-1.msgpack").read_bytes()

    assert pending_files(Committable(OperatorUid("sink"), 1, CheckpointId(7), data, "", 3)) == (FILE,)


def test_pending_files_of_version_2_load() -> None:
    data = (HERE / "pending-files-2.msgpack").read_bytes()

    assert pending_files(Committable(OperatorUid("sink"), 1, CheckpointId(7), data, "", 3)) == (FILE, SPANNED)


@pytest.mark.parametrize(
    ("name", "work"), [("staged-1", STAGED), ("prepared-1", PREPARED)], ids=["staged", "prepared"]
)
def test_the_work_of_a_database_sink_of_version_1_loads(name: str, work: DatabaseWork) -> None:
    assert decode_work((HERE / f"database-{name}.msgpack").read_bytes()) == work


def test_a_range_of_a_table_of_version_1_loads() -> None:
    data = (HERE / "table-split-1.msgpack").read_bytes()

    assert msgspec.msgpack.decode(data, type=TableSplit) == ROWS


def test_the_open_files_of_a_writer_of_version_1_load() -> None:
    data = (HERE / "held-files-1.msgpack").read_bytes()

    assert held_files(OperatorUid("sink"), [data, data]) == [HELD, HELD]


def test_collected_values_of_version_1_load() -> None:
    values = list(frames_in((HERE / "collected-1.frames").read_bytes(), "collected-1.frames"))

    assert repr(values) == repr(VALUES * 2)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("range-split-1.msgpack", msgspec.msgpack.encode(SPLITS[1])),
        ("file-split-1.msgpack", msgspec.msgpack.encode(PART)),
        ("function-split-1.msgpack", msgspec.msgpack.encode(INSTANCE)),
        ("list-enumerator-1.msgpack", ListEnumerator(Deal(), SPLITS, RangeSplit).snapshot(CheckpointId(1))),
        ("watched-files-1.msgpack", watched()),
        ("pending-file-1.msgpack", msgspec.msgpack.encode(FILE)),
        ("pending-files-2.msgpack", msgspec.msgpack.encode(PendingFiles((FILE, SPANNED)))),
        ("held-files-1.msgpack", msgspec.msgpack.encode(HeldFiles((HELD,)))),
        ("database-staged-1.msgpack", msgspec.msgpack.encode(STAGED)),
        ("database-prepared-1.msgpack", msgspec.msgpack.encode(PREPARED)),
        ("table-split-1.msgpack", msgspec.msgpack.encode(ROWS)),
        ("collected-1.frames", Frames().encode(VALUES) * 2),
    ],
    ids=[
        "split",
        "file",
        "function",
        "enumerator",
        "watched files",
        "pending file",
        "pending files",
        "held files",
        "staged rows",
        "prepared rows",
        "range of a table",
        "collected",
    ],
)
def test_what_is_written_now_is_on_record(name: str, data: bytes) -> None:
    assert data == (HERE / name).read_bytes()
