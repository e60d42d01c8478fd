"""Every source passes the kit that authors get."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import Fetched, Fetcher, FetchingReader, ListEnumerator, RangeSplit
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.files import (
    AvroFormat,
    CsvFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    RecordFileSource,
    TextFileSource,
    TextFormat,
)
from tidegate.connectors.generator import Ascending, DataGenSource, GeneratorSource, RandomInt, RandomText
from tidegate.connectors.hybrid import HybridSource
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.ids import SplitId
from tidegate.testing.source import (
    FetchingSourceSuite,
    PausingSourceSuite,
    RangedSourceSuite,
    SourceSuite,
    SourceTarget,
)
from tidegate.types import Types


@pytest.mark.connector("collection.source")
class TestCollectionSource(RangedSourceSuite, PausingSourceSuite):
    """Values of the program."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(CollectionSource(range(10), Types.LONG()), expected=range(10))


@pytest.mark.connector("collection.source")
class TestCollectionSourceOfFewerValuesThanReaders(RangedSourceSuite, PausingSourceSuite):
    """Some readers get nothing and say that they have finished."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(CollectionSource([(1, "a"), None]), expected=[(1, "a"), None])


@pytest.mark.connector("generator.source")
class TestGeneratorSource(RangedSourceSuite, PausingSourceSuite):
    """Computed records, in more splits than readers."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = GeneratorSource(lambda number: number * number, count=11, splits=4)
        return SourceTarget(source, expected=[number * number for number in range(11)])


@pytest.mark.connector("generator.source")
class TestPacedGeneratorSource(RangedSourceSuite, PausingSourceSuite):
    """The same at a limited rate."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = GeneratorSource(str, count=8, splits=2, rate_per_second=1_000)
        return SourceTarget(source, expected=[str(number) for number in range(8)])


@pytest.mark.connector("hybrid.source")
class TestHybridSource(PausingSourceSuite):
    """Numbers of the past, and others that go on where those ended."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        history = GeneratorSource(int, count=7, splits=2)
        source = HybridSource((history, lambda end: GeneratorSource(lambda number: end + number, count=5)))
        return SourceTarget(source, expected=range(12))


@pytest.mark.connector("generator.source")
class TestDataGenSource(RangedSourceSuite, PausingSourceSuite):
    """Rows with random fields, which are the same when they are read again."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        fields = {"id": Ascending(1, 12), "number": RandomInt(1, 9), "text": RandomText(3)}
        source = DataGenSource(fields, splits=3)
        return SourceTarget(source, expected=[source.function(number) for number in range(12)])


@pytest.mark.connector("files.source")
class TestTextFileSource(SourceSuite):
    """Lines of a directory, in parts that cut them; some files are empty, hidden or without a last line end."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        (tmp_path / "a").write_bytes("eins\r\nzwei\n\nfünf, with a long text\nend".encode())
        (tmp_path / "b").write_bytes(b"")
        (tmp_path / "c").write_bytes(b"only\n")
        (tmp_path / ".hidden").write_bytes(b"nothing\n")
        expected = ["eins", "zwei", "", "fünf, with a long text", "end", "only"]
        return SourceTarget(TextFileSource(str(tmp_path), part_bytes=7), expected=expected)


@pytest.mark.connector("files.source")
class TestJsonFileSource(SourceSuite):
    """Lines of JSON, some blank, in parts that cut them."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        values: list[Any] = [{"id": number, "text": "ü" * number} for number in range(9)]
        lines = [msgspec.json.encode(value) for value in values]
        (tmp_path / "a.jsonl").write_bytes(b"\n".join([*lines[:5], b"", b" "]))
        (tmp_path / "b.jsonl").write_bytes(b"\n" + b"\n".join(lines[5:]) + b"\n")
        return SourceTarget(RecordFileSource(str(tmp_path), JsonFormat(), part_bytes=11), expected=values)


@pytest.mark.connector("files.source")
class TestCompressedCsvFileSource(SourceSuite):
    """CSV that says its names itself, plain and compressed, in folders."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        files = {"a.csv": 'id,name\n1,one\n2,"t,wo"\n', "b.csv.gz": "name,id\nthree,3\nfour,4\n"}
        (tmp_path / "sub").mkdir()
        (tmp_path / "a.csv").write_text(files["a.csv"])
        (tmp_path / "sub" / "b.csv.gz").write_bytes(gzip.compress(files["b.csv.gz"].encode()))
        source = RecordFileSource([str(tmp_path)], CsvFormat(types={"id": int}), part_bytes=5)
        expected = [{"id": 1, "name": "one"}, {"id": 2, "name": "t,wo"}]
        return SourceTarget(
            source, expected=[*expected, {"name": "three", "id": 3}, {"name": "four", "id": 4}]
        )


@pytest.mark.connector("files.source")
class TestParquetFileSource(SourceSuite):
    """Some rows and columns of Parquet, in parts of a row group."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        rows = [{"id": number, "name": f"n{number % 3}", "half": number / 2} for number in range(20)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=4)
        reading = ParquetFormat(columns=("half", "name"), where=[("id", ">", 5), ("name", "!=", "n1")])
        expected = [
            {"half": row["half"], "name": row["name"]}
            for row in rows
            if row["id"] in range(6, 20) and row["name"] != "n1"
        ]
        return SourceTarget(RecordFileSource(str(tmp_path), reading, part_bytes=1), expected=expected)


@pytest.mark.connector("files.source")
class TestAvroFileSource(SourceSuite):
    """Some fields of Avro, in parts of a few blocks."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
        rows = [{"id": number, "name": f"n{number}"} for number in range(20)]
        with (tmp_path / "a.avro").open("wb") as file:
            schema = {"type": "record", "name": "One", "fields": fields}
            fastavro.writer(file, schema, rows, codec="deflate", sync_interval=9)
        source = RecordFileSource(str(tmp_path), AvroFormat(columns=("id",)), part_bytes=20)
        return SourceTarget(source, expected=[{"id": row["id"]} for row in rows])


@pytest.mark.connector("files.source")
class TestOrcFileSource(SourceSuite):
    """Rows of ORC."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        rows = [{"id": number, "name": f"n{number}"} for number in range(10)]
        orc.write_table(pa.Table.from_pylist(rows), tmp_path / "a.orc")
        expected = [{"id": row["id"]} for row in rows]
        return SourceTarget(RecordFileSource(str(tmp_path), OrcFormat(columns=("id",))), expected=expected)


@pytest.mark.connector("files.source")
class TestWatchingFileSource(SourceSuite):
    """A directory that is looked at again and again."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        lines = [f"line {number}" for number in range(10)]
        for number in range(0, 10, 2):
            (tmp_path / str(number)).write_text("".join(f"{line}\n" for line in lines[number : number + 2]))
        source = RecordFileSource(str(tmp_path), TextFormat(), part_bytes=8, watch_ms=1_000)
        return SourceTarget(source, expected=lines, patience=8)


@dataclass(frozen=True)
class FetchedNumbers(Source[RangeSplit]):
    """Ten numbers in three splits, brought two at a time by one thread or three; endless splits wait for more."""

    thread_per_split: bool
    end: BaseException | None = None
    bounded: bool = True

    split_type = RangeSplit

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> ListEnumerator[RangeSplit]:
        splits = [RangeSplit(SplitId(f"from {at}"), at, min(at + 4, 10)) for at in (0, 4, 8)]
        return ListEnumerator(context, splits, RangeSplit, restored)

    def open_reader(self, context: ReaderContext) -> FetchingReader[RangeSplit]:
        fetcher = partial(Pairs, self.end, self.bounded)
        return FetchingReader(fetcher, behind, context, thread_per_split=self.thread_per_split)


class Pairs(Fetcher[RangeSplit]):
    def __init__(self, end: BaseException | None, bounded: bool) -> None:
        self.end, self.bounded = end, bounded
        self.woken = Event()

    def fetch(self, splits: Sequence[RangeSplit]) -> list[Fetched[RangeSplit]]:
        if self.end is not None:
            raise self.end
        open_splits = [split for split in splits if not split.done]
        if not open_splits:
            self.woken.wait()
            self.woken.clear()
        parts = [(split, *split.cut(2)) for split in open_splits]
        return [
            Fetched(split, list(part.head(2)), part.head(2), self.rest(split, part, rest))
            for split, part, rest in parts
        ]

    def rest(self, split: RangeSplit, part: RangeSplit, rest: RangeSplit | None) -> RangeSplit | None:
        return rest if self.bounded else split.after(part.head(2))

    def wake_up(self) -> None:
        self.woken.set()


def behind(split: RangeSplit, number: int) -> RangeSplit:
    return RangeSplit(split.id, number + 1, split.stop)


class TestFetchedSource(FetchingSourceSuite, PausingSourceSuite):
    """Records that threads fetch for a reader."""

    @pytest.fixture(params=[False, True], ids=["one thread", "thread per split"])
    def target(self, request: pytest.FixtureRequest) -> SourceTarget:
        return SourceTarget(
            FetchedNumbers(request.param),
            expected=range(10),
            patience=400,
            clock=SYSTEM_CLOCK,
            ending=lambda error: FetchedNumbers(request.param, error),
        )


class TestEndlessFetchedSource(PausingSourceSuite):
    """The same of splits that never end: the kit stops to read when nothing comes any more."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = FetchedNumbers(False, bounded=False)
        return SourceTarget(source, expected=range(10), patience=20, clock=SYSTEM_CLOCK)


FAULTS = {
    "TestForgetsPosition": "test_a_restore_at_any_point_neither_loses_nor_repeats",
    "TestForgetsUndealtSplits": "test_unassigned_splits_survive_a_restore",
    "TestDealsTwice": "test_a_split_is_in_exactly_one_place",
    "TestAliasesItsSnapshot": "test_a_checkpoint_is_not_changed_by_reading_on",
    "TestOverlapsItsParts": "test_bounding_a_split_partitions_it",
    "TestGoesOnWhereItLeftOff": "test_an_older_checkpoint_can_be_gone_back_to_again_and_again",
    "TestIgnoresPauses": "test_a_paused_split_waits_and_the_others_continue",
    "TestLosesItsThread": "test_a_fetch_that_ends_on_its_own_fails_a_poll_with_its_name",
    "TestWaitsByTheWallClock": "test_a_wall_clock_that_is_set_back_holds_nothing_up",
    "TestTakesAnySplitForItsOwn": "test_a_split_of_another_source_is_refused",
    "TestIsNotEvenRanged": "test_a_bounded_part_reads_the_same_again",
}
"""The clause that must find each fault of `broken_sources.py`."""


def test_the_kit_finds_every_fault(broken_clauses: Callable[[Path, dict[str, str]], set[str]]) -> None:
    found = broken_clauses(Path(__file__).with_name("broken_sources.py"), FAULTS)

    assert found == {f"{name}::{clause}" for name, clause in FAULTS.items()}


def test_the_kit_finds_threads_that_are_left(
    broken_clauses: Callable[[Path, dict[str, str]], set[str]],
) -> None:
    clauses = {"TestLeavesItsThread": "test_one_reader_reads_every_record_once"}

    found = broken_clauses(Path(__file__).with_name("broken_sources.py"), clauses)

    assert found == {f"{name}::{clause}" for name, clause in clauses.items()}
