"""Threads that fetch for a reader that never waits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tidegate.connectors.base import Fetched, Fetcher, FetchingReader, ListEnumerator, RangeSplit, fetching
from tidegate.connectors.spi import EnumeratorContext, Finished, NotYet, Poll, ReaderContext, Source
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch, Idle
from tidegate.errors import UnavailableError, UserCodeError
from tidegate.ids import CheckpointId, SplitId

A, B = SplitId("a"), SplitId("b")
NOW = CheckpointId(1)
PATIENCE_S = 20.0


@dataclass
class Shop:
    """What is there of each split, and who looked; fetchers wait in it until something comes or they are woken."""

    numbers: dict[SplitId, int] = field(default_factory=dict)
    """How many numbers each split has by now."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    asked: list[list[SplitId]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    closed: int = 0
    broken: Exception | None = None

    def offer(self, split: SplitId, numbers: int) -> None:
        with self.changed:
            self.numbers[split] = numbers
            self.changed.notify_all()

    def fail(self, error: Exception) -> None:
        with self.changed:
            self.broken = error
            self.changed.notify_all()


class Clerk(Fetcher[RangeSplit]):
    """Fetches two numbers of each split at most."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.woken = False
        self.closed = False

    def fetch(self, splits: Sequence[RangeSplit]) -> list[Fetched[RangeSplit]]:
        shop = self.shop
        with shop.changed:
            shop.asked.append([split.id for split in splits])
            shop.threads.add(threading.get_ident())
            shop.changed.notify_all()
            shop.changed.wait_for(lambda: self.woken or shop.broken or self.found(splits))
            self.woken = False
            if shop.broken is not None and not self.found(splits):
                raise shop.broken
            return self.found(splits)

    def found(self, splits: Sequence[RangeSplit]) -> list[Fetched[RangeSplit]]:
        there = [(split, self.shop.numbers.get(split.id, 0) - split.next) for split in splits]
        return [pair(split, min(number, 2)) for split, number in there if number > 0]

    def wake_up(self) -> None:
        with self.shop.changed:
            assert not self.closed
            self.woken = True
            self.shop.changed.notify_all()

    def close(self) -> None:
        with self.shop.changed:
            self.closed = True
            self.shop.closed += 1
            self.shop.changed.notify_all()


def pair(split: RangeSplit, records: int) -> Fetched[RangeSplit]:
    part, rest = split.cut(records)
    numbers = part.head(records)
    return Fetched(split, list(numbers), numbers, rest)


def behind(split: RangeSplit, number: int) -> RangeSplit:
    return RangeSplit(split.id, number + 1, split.stop)


class Rig:
    """A reader, the shop it reads and the bell it rings."""

    def __init__(self, context: ReaderContext, *, thread_per_split: bool = False) -> None:
        self.shop = Shop()
        self.rung = threading.Event()
        self.reader = FetchingReader[RangeSplit](
            lambda: Clerk(self.shop),
            behind,
            replace(context, wake=self.rung.set),
            thread_per_split=thread_per_split,
        )

    def read(self, records: int) -> list[Any]:
        """So many records of whichever split, asking again only when the bell rang."""
        values: list[Any] = []
        while len(values) < records:
            self.rung.clear()
            found = self.reader.poll(3)
            if isinstance(found, Batch):
                values += found.values
            elif isinstance(found, NotYet):
                assert self.rung.wait(PATIENCE_S), f"only {values} came"
        return values

    def until(self, condition: Callable[[Shop], Any]) -> None:
        with self.shop.changed:
            assert self.shop.changed.wait_for(lambda: condition(self.shop), PATIENCE_S)


@pytest.fixture
def rigs(reader_context: ReaderContext) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**options: Any) -> Rig:
        made.append(Rig(reader_context, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.reader.close()


@pytest.mark.spec("003/SRC-26")
def test_a_poll_does_not_wait_for_a_fetch_that_does(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.reader.add_splits([RangeSplit(A, 0, 4)])
    rig.until(lambda shop: shop.asked)

    assert isinstance(rig.reader.poll(10), NotYet)
    assert rig.reader.snapshot(NOW) == [RangeSplit(A, 0, 4)]


@pytest.mark.spec("003/SRC-20")
def test_the_outside_is_met_by_threads_that_fetch_and_the_engine_by_the_one_that_polls(
    rigs: Callable[..., Rig],
) -> None:
    rig = rigs()
    rig.reader.add_splits([RangeSplit(A, 0, 2)])
    rig.shop.offer(A, 2)

    assert rig.read(2) == [0, 1]
    assert len(rig.shop.threads) == 1
    assert threading.get_ident() not in rig.shop.threads


@pytest.mark.spec("003/SRC-22", "003/SRC-29", "003/SRC-21")
def test_one_thread_fetches_all_splits_and_is_told_of_new_ones_while_it_waits(
    rigs: Callable[..., Rig],
) -> None:
    rig = rigs()
    rig.reader.add_splits([RangeSplit(A, 0, 4)])
    rig.until(lambda shop: shop.asked == [[A]])

    rig.reader.add_splits([RangeSplit(B, 0, 4)])
    rig.until(lambda shop: shop.asked == [[A], [A, B]])
    rig.shop.offer(B, 2)

    assert rig.read(2) == [0, 1]
    assert len(rig.shop.threads) == 1


@pytest.mark.spec("003/SRC-23", "003/SRC-29", "003/SRC-21")
def test_each_split_has_a_thread_of_its_own_that_ends_with_it(rigs: Callable[..., Rig]) -> None:
    rig = rigs(thread_per_split=True)
    rig.reader.add_splits([RangeSplit(A, 0, 2)])
    rig.reader.add_splits([RangeSplit(B, 0, None)])
    rig.until(lambda shop: sorted(shop.asked) == [[A], [B]])

    assert len(rig.shop.threads) == 2
    rig.shop.offer(A, 2)
    assert rig.read(2) == [0, 1]
    rig.until(lambda shop: shop.closed == 1)
    assert rig.reader.unfinished_splits() == [B]


@pytest.mark.spec("003/SRC-27")
def test_a_reader_says_that_there_is_more_that_there_is_nothing_yet_and_that_it_is_over(
    rigs: Callable[..., Rig],
) -> None:
    rig = rigs()
    rig.shop.offer(A, 3)
    rig.reader.add_splits([RangeSplit(A, 0, 4)])

    assert rig.read(3) == [0, 1, 2]
    assert isinstance(rig.reader.poll(10), NotYet)
    rig.reader.no_more_splits()
    rig.shop.offer(A, 4)
    assert rig.read(1) == [3]
    assert isinstance(rig.reader.poll(10), Finished)


def test_a_reader_without_splits_holds_no_time_back_and_asks_for_some(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.shop.offer(A, 1)

    assert [rig.reader.poll(1), rig.reader.poll(1)] == [Idle(True), NotYet()]
    rig.reader.add_splits([RangeSplit(A, 0, 1)])
    assert rig.reader.poll(1) == Idle(False)
    assert rig.read(1) == [0]


def test_a_fetch_that_waits_for_quiet_splits_hears_of_room_for_a_busy_one(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.shop.offer(A, 9)
    rig.reader.add_splits([RangeSplit(A, 0, 9), RangeSplit(B, 0, 9)])
    rig.until(lambda shop: shop.asked[-1:] == [[B]])

    assert rig.read(9) == list(range(9))
    assert rig.shop.asked[:3] == [[A, B], [A, B], [B]]


def test_a_paused_split_is_not_fetched_until_it_is_let_go(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.shop.offer(A, 2)
    rig.reader.pause([A])
    rig.reader.add_splits([RangeSplit(A, 0, 2), RangeSplit(B, 0, 2)])
    rig.until(lambda shop: shop.asked == [[B]])

    assert isinstance(rig.reader.poll(1), NotYet)
    rig.reader.pause([])
    assert rig.read(2) == [0, 1]


def test_a_failure_is_raised_with_its_split_after_what_came_before_it(rigs: Callable[..., Rig]) -> None:
    rig = rigs(thread_per_split=True)
    rig.shop.offer(A, 1)
    rig.shop.fail(UnavailableError("the shop is shut"))
    rig.reader.add_splits([RangeSplit(A, 0, 2)])

    assert rig.read(1) == [0]
    with pytest.raises(
        UnavailableError,
        match=r"source 'source' \(subtask source\[0\]\) failed in fetching 'a': UnavailableError: the shop is shut",
    ) as failure:
        rig.read(1)
    assert failure.value.__cause__ is rig.shop.broken
    assert rig.shop.closed == 1


def test_gaps_are_passed_however_many_there_are(reader_context: ReaderContext) -> None:
    rung = threading.Event()

    class Gappy(Fetcher[RangeSplit]):
        def fetch(self, splits: Sequence[RangeSplit]) -> list[Fetched[RangeSplit]]:
            (split,) = splits
            return [pair(split, 1) if split.next == 7 else Fetched(split, [], [], behind(split, split.next))]

        def wake_up(self) -> None:
            pass

    reader = FetchingReader(Gappy, behind, replace(reader_context, wake=rung.set))
    reader.add_splits([RangeSplit(A, 0, 8)])

    with contextlib.closing(reader):
        while not isinstance(found := reader.poll(1), Batch):
            assert rung.wait(PATIENCE_S)
            rung.clear()
        assert (found.values, reader.unfinished_splits()) == ([7], [])


def test_a_fetcher_that_cannot_be_made_is_named(reader_context: ReaderContext) -> None:
    rung = threading.Event()

    def refuse() -> Fetcher[RangeSplit]:
        raise OSError("no way in")

    reader = FetchingReader(refuse, behind, replace(reader_context, wake=rung.set))
    reader.add_splits([RangeSplit(A, 0, 2)])

    assert rung.wait(PATIENCE_S)
    with pytest.raises(UserCodeError, match="failed in opening a fetcher: OSError: no way in"):
        reader.poll(1)
    reader.close()


@pytest.mark.parametrize("thread_per_split", [False, True], ids=["one thread", "thread per split"])
def test_closing_ends_fetches_that_wait_and_leaves_no_thread(
    rigs: Callable[..., Rig], thread_per_split: bool
) -> None:
    rig = rigs(thread_per_split=thread_per_split)
    rig.reader.add_splits([RangeSplit(A, 0, 2), RangeSplit(B, 0, 2)])
    rig.until(lambda shop: {split for asked in shop.asked for split in asked} == {A, B})

    rig.reader.close()

    assert rig.shop.closed == len(rig.shop.threads) == 1 + thread_per_split
    assert not {thread.ident for thread in threading.enumerate()} & rig.shop.threads


def test_a_fetcher_that_does_not_hear_is_named_at_the_end(
    reader_context: ReaderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_GRACE_S", 0.01)
    release = threading.Event()

    class Deaf(Fetcher[RangeSplit]):
        def fetch(self, splits: Sequence[RangeSplit]) -> list[Fetched[RangeSplit]]:
            release.wait(PATIENCE_S)
            return []

        def wake_up(self) -> None:
            pass

    reader = FetchingReader(Deaf, behind, reader_context)
    reader.add_splits([RangeSplit(A, 0, 2)])

    with pytest.raises(
        UserCodeError, match=r"source 'source': a fetcher is still fetching 0.01 s after wake_up"
    ):
        reader.close()
    release.set()
    monkeypatch.setattr(fetching, "_GRACE_S", PATIENCE_S)
    reader.close()


@dataclass(frozen=True)
class LateNumbers(Source[RangeSplit]):
    """Ten numbers that are not there before somebody has looked in vain."""

    split_type = RangeSplit
    bounded = True

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> ListEnumerator[RangeSplit]:
        return ListEnumerator(context, [RangeSplit(A, 0, 10)], RangeSplit, restored)

    def open_reader(self, context: ReaderContext) -> FetchingReader[RangeSplit]:
        shop = Shop()

        class Impatient(FetchingReader[RangeSplit]):
            def poll(self, limit: int) -> Poll:
                found = super().poll(limit)
                if isinstance(found, NotYet) and found.after_ms is not None:
                    shop.offer(A, 10)
                return found

        return Impatient(lambda: Clerk(shop), behind, context)


def test_a_job_goes_on_as_soon_as_a_fetch_has_brought_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_PAUSE_MS", 3_600_000)
    settings = {"execution.target": "inline", "parallelism.default": 1, "pipeline.progress": "off"}
    env = StreamExecutionEnvironment.get_execution_environment(settings)

    with env.from_source(LateNumbers(), source_name="numbers").execute_and_collect() as results:
        assert list(results) == list(range(10))
