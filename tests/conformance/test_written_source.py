"""A source as its author writes it passes the kit: a split, an enumerator and what fetches are all it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import Fetched, Fetcher, FetchingReader
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source, Split, SplitEnumerator
from tidegate.ids import CheckpointId, SplitId
from tidegate.testing.source import PausingSourceSuite, SourceRig, SourceTarget


class Chapter(Split, frozen=True, tag_field="v", tag=1):
    """The lines of a book from `line` on, below `end`."""

    book: str
    line: int
    end: int


class Librarian(SplitEnumerator[Chapter]):
    """Gives whoever asks the next chapter."""

    def __init__(self, context: EnumeratorContext[Chapter], chapters: Sequence[Chapter]) -> None:
        self.context = context
        self.chapters = list(chapters)

    def request(self, reader: int) -> None:
        if self.chapters:
            self.context.assign(reader, [self.chapters.pop(0)])
        else:
            self.context.no_more_splits(reader)

    def give_back(self, splits: Sequence[Chapter]) -> None:
        self.chapters[:0] = splits

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        return msgspec.msgpack.encode(self.chapters)


class Browser(Fetcher[Chapter]):
    """Reads two lines at a time; a line has its number and a time."""

    def __init__(self, books: Mapping[str, bytes]) -> None:
        self.books = books

    def fetch(self, splits: Sequence[Chapter]) -> Iterator[Fetched[Chapter]]:
        for split in splits:
            lines = range(split.line, min(split.line + 2, split.end))
            texts = [self.books[split.book].split(b"\n")[line].decode() for line in lines]
            rest = behind_line(split, lines[-1]) if lines.stop < split.end else None
            yield Fetched(split, texts, lines, rest, [1_000 * line for line in lines])

    def wake_up(self) -> None:
        """It never waits."""


def behind_line(split: Chapter, line: int) -> Chapter:
    return msgspec.structs.replace(split, line=line + 1)


@dataclass(frozen=True)
class Library(Source[Chapter]):
    """All that an author writes: a split, an enumerator, what fetches, and which of them go together."""

    books: Mapping[str, bytes]

    split_type = Chapter
    bounded = True

    def open_enumerator(self, context: EnumeratorContext[Chapter], restored: bytes | None) -> Librarian:
        if restored is not None:
            return Librarian(context, msgspec.msgpack.decode(restored, type=list[Chapter]))
        chapters = [
            Chapter(SplitId(f"{book} from {line}"), book, line, min(line + 3, len(text.split(b"\n"))))
            for book, text in self.books.items()
            for line in range(0, len(text.split(b"\n")), 3)
        ]
        return Librarian(context, chapters)

    def open_reader(self, context: ReaderContext) -> FetchingReader[Chapter]:
        return FetchingReader(lambda: Browser(self.books), behind_line, context)


@pytest.mark.spec("003/SRC-19", "003/SRC-32", "003/SRC-33", "003/SRC-34", "003/SRC-35")
class TestWrittenSource(PausingSourceSuite):
    """What an author writes is enough, without a word of threads, locks or checkpoints."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        books = {"Emma": b"one\ntwo\nthree\nfour\nfive", "Ulysses": b"un\ndeux\ntrois\nquatre"}
        lines = [line.decode() for text in books.values() for line in text.split(b"\n")]
        return SourceTarget(Library(books), expected=lines, patience=400, clock=SYSTEM_CLOCK)

    def test_lines_come_with_their_times(self, target: SourceTarget) -> None:
        """The time of a record is what the fetcher says."""
        rig = SourceRig(target, 1)
        rig.read()
        assert sorted({time for batch in rig.batches for time in batch.timestamps or ()}) == [
            1_000 * line for line in range(5)
        ]
