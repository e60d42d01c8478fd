"""Sources one after the other: when a stage is over, what the next is made of, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import TextFileSource
from tidegate.connectors.generator import GeneratorSource, NumberSequenceSource
from tidegate.connectors.hybrid import HybridSource
from tidegate.connectors.socket import SocketTextSource
from tidegate.connectors.spi import NotYet, ReaderContext, Source, SupportsPausing
from tidegate.elements import Batch, Idle
from tidegate.errors import ConfigError, StateFormatError, UserCodeError
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.testing.source import SourceRig, SourceTarget

NOW = CheckpointId(1)


def going_on(count: int | None, **options: Any) -> Callable[[Any], Source[Any]]:
    return lambda end: GeneratorSource(lambda number: end + number, count, **options)


def read(source: Source[Any], readers: int = 2) -> list[Any]:
    return SourceRig(SourceTarget(source, ()), readers).read()


def test_a_stage_begins_when_every_reader_has_read_the_one_before() -> None:
    history = GeneratorSource(int, count=30, splits=3)

    values = read(HybridSource((history, going_on(30, splits=3))))

    assert set(values[:30]) == set(range(30))
    assert set(values[30:]) == set(range(30, 60))


def test_a_reader_that_is_promised_nothing_waits_for_the_others() -> None:
    values = read(HybridSource((GeneratorSource(int, 3), going_on(2), going_on(2))), readers=4)

    assert sorted(values) == [0, 1, 2, 2, 3, 3, 4]


def test_a_stage_without_records_is_passed_over() -> None:
    assert read(
        HybridSource((GeneratorSource(int, 0), GeneratorSource(int, 0), GeneratorSource(int, 4)))
    ) == [
        0,
        1,
        2,
        3,
    ]


def test_the_position_is_the_same_after_a_restart_in_the_next_stage() -> None:
    target = SourceTarget(HybridSource((GeneratorSource(int, 5), going_on(10))), ())
    first = SourceRig(target)
    before = first.read(9)

    after = SourceRig(target, 3, first.checkpoint()).read()

    assert before + after == list(range(15))


def test_a_source_can_begin_at_the_time_of_the_newest_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("one\n")
    (tmp_path / "new").write_text("two\n")
    newest = (tmp_path / "new").stat().st_mtime_ns // 1_000_000
    live = going_on(1)

    values = read(HybridSource((TextFileSource(str(tmp_path)), live)), readers=1)

    assert sorted(values[:2]) == ["one", "two"]
    assert values[2:] == [newest]


def test_records_of_different_stages_have_different_origins() -> None:
    rig = SourceRig(SourceTarget(HybridSource((GeneratorSource(int, 2), GeneratorSource(int, 2))), ()))
    rig.read()

    assert {batch.origin.split for batch in rig.batches if batch.origin} == {"0:0/1", "1:0/1"}


def test_it_is_bounded_if_its_last_source_is_and_stays_open_if_one_has_to() -> None:
    history = NumberSequenceSource(1, 3)

    assert HybridSource((history, history)).bounded
    assert not HybridSource((history, SocketTextSource("localhost", 1))).bounded
    assert HybridSource((history, SocketTextSource("localhost", 1))).replayable == SocketTextSource.replayable


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ((), "hybrid source is 'nothing'; expected a source"),
        ((going_on(1),), "hybrid source is <function"),
        (
            (GeneratorSource(int, None), GeneratorSource(int, 1)),
            r"stage 0 \(GeneratorSource\) is unbounded, so no later stage would be read; bound it",
        ),
    ],
    ids=["none", "a function first", "an endless one first"],
)
def test_stages_that_make_no_sense_are_refused(stages: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        HybridSource(stages)


def test_what_a_function_makes_is_checked() -> None:
    history = GeneratorSource(int, 1)

    with pytest.raises(ConfigError, match="the function for stage 1 returned str; expected a source"):
        read(HybridSource((history, str)))  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(UserCodeError, match="the function for stage 1 failed: ZeroDivisionError"):
        read(HybridSource((history, lambda end: end // 0)))
    with pytest.raises(ConfigError, match=r"stage 1 \(GeneratorSource\) is unbounded"):
        read(HybridSource((history, going_on(None), history)))


def test_a_checkpoint_of_other_stages_is_refused(deal: Any) -> None:
    one, two = (HybridSource((GeneratorSource(int, 0),) * stages) for stages in (1, 2))
    enumerator = two.open_enumerator(deal, None)
    enumerator.start()
    for reader in (0, 1, 0, 1):
        enumerator.request(reader)

    with pytest.raises(
        StateFormatError, match="was taken at stage 1 of the hybrid source; got 1 stages; keep the stages"
    ):
        one.open_enumerator(deal, enumerator.snapshot(NOW))
    with pytest.raises(StateFormatError, match="the state of a hybrid source cannot be read"):
        one.open_enumerator(deal, b"x")


def test_the_files_of_a_watching_stage_are_looked_for(tmp_path: Path, deal: Any) -> None:
    from tidegate.connectors.files import RecordFileSource, TextFormat

    (tmp_path / "a").write_text("a\n")
    watching = RecordFileSource(str(tmp_path), TextFormat(), watch_ms=1_000)
    enumerator = HybridSource((GeneratorSource(int, 0), watching)).open_enumerator(deal, None)
    enumerator.start()

    assert enumerator.discovery_interval_ms is None
    for reader in (0, 1, 0, 1):
        enumerator.request(reader)
    assert enumerator.discovery_interval_ms == 1_000
    (tmp_path / "b").write_text("b\n")
    late: tuple[int, Any] = (0, {"/too/late": []})
    enumerator.discovered(late)
    enumerator.discovered(enumerator.discover())
    assert [split.id for splits in deal.assigned.values() for split in splits] == [
        f"1:{tmp_path / name}:0" for name in "ab"
    ]
    assert enumerator.pending() == []


def test_idleness_ends_with_the_stage_that_was_idle(reader_context: ReaderContext) -> None:
    class Idling(GeneratorSource[int]):
        def open_reader(self, context: ReaderContext) -> Any:
            reader, idle = super().open_reader(context), [Idle(True)]
            inner, poll = reader, reader.poll
            inner.poll = lambda limit: poll(limit) if inner.unfinished_splits() or not idle else idle.pop()  # type: ignore[method-assign]
            return inner

    source = HybridSource((Idling(int, 1), GeneratorSource(int, 1)))
    deal: list[Any] = []
    reader = source.open_reader(reader_context)
    for stage in (0, 1):
        inner = source.source_of(stage, None)
        assert isinstance(inner, GeneratorSource)
        deal += [type(source).split_type.of(stage, inner._split(0), None)]
    reader.add_splits(deal)
    reader.no_more_splits()

    found = [reader.poll(5) for _ in range(6)]

    assert [each for each in found if isinstance(each, Idle)] == [Idle(True), Idle(False)]
    assert [each.values for each in found if isinstance(each, Batch)] == [[0], [0]]


def test_what_is_settled_is_told_to_the_current_stage() -> None:
    told: list[CheckpointId] = []

    class Telling(GeneratorSource[int]):
        def open_reader(self, context: ReaderContext) -> Any:
            reader = super().open_reader(context)
            reader.settled = told.append  # type: ignore[attr-defined]
            return reader

    rig = SourceRig(SourceTarget(HybridSource((Telling(int, 3),)), ()))
    rig.read(1)
    reader = rig.reader(0)
    reader.settled(NOW)  # type: ignore[attr-defined]

    assert told == [NOW]


def test_a_source_that_reads_time_from_the_machine_is_not_asked_too_often() -> None:
    context = ReaderContext(OperatorUid("s"), Subtask("s", 0), 1, SYSTEM_CLOCK)
    reader = HybridSource((GeneratorSource(int, 1),)).open_reader(context)

    assert reader.snapshot(NOW) == []


def test_a_stage_whose_reader_cannot_tell_splits_apart_waits_when_all_are_paused(
    tmp_path: Path, reader_context: ReaderContext
) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    files = TextFileSource(str(tmp_path))
    source = HybridSource((GeneratorSource(int, 1), files))
    rig = SourceRig(SourceTarget(source, ()))
    assert rig.read(2) == [0, "one"]
    reader = rig.reader(0)
    assert isinstance(reader, SupportsPausing)

    (split,) = reader.unfinished_splits()
    assert split.startswith("1:")
    reader.pause([split])
    waits = rig.poll(0, 5)
    assert isinstance(waits, NotYet)
    assert waits.after_ms is not None
    reader.pause([])
    assert rig.read() == ["two"]
    assert reader.unfinished_splits() == []


def test_a_reader_that_is_through_asks_for_more_whatever_was_paused(reader_context: ReaderContext) -> None:
    source = HybridSource((GeneratorSource(int, 1), GeneratorSource(int, 1)))
    reader = source.open_reader(reader_context)
    inner = source.source_of(0, None)
    assert isinstance(inner, GeneratorSource)
    reader.add_splits([source.split_type.of(0, inner._split(0), None)])
    reader.pause(["elsewhere"])  # type: ignore[list-item]  # a name is a text

    assert isinstance(reader.poll(5), Batch)
    assert reader.poll(5) == NotYet()
