"""Every source passes the kit that authors get."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.files import TextFileSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.testing.source import PausingSourceSuite, RangedSourceSuite, SourceSuite, SourceTarget
from tidegate.types import Types


class TestCollectionSource(RangedSourceSuite, PausingSourceSuite):
    """Values of the program."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(CollectionSource(range(10), Types.LONG()), expected=range(10))


class TestCollectionSourceOfFewerValuesThanReaders(RangedSourceSuite, PausingSourceSuite):
    """Some readers get nothing and say that they have finished."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(CollectionSource([(1, "a"), None]), expected=[(1, "a"), None])


class TestGeneratorSource(RangedSourceSuite, PausingSourceSuite):
    """Computed records, in more splits than readers."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = GeneratorSource(lambda number: number * number, count=11, splits=4)
        return SourceTarget(source, expected=[number * number for number in range(11)])


class TestPacedGeneratorSource(RangedSourceSuite, PausingSourceSuite):
    """The same at a limited rate."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = GeneratorSource(str, count=8, splits=2, rate_per_second=1_000)
        return SourceTarget(source, expected=[str(number) for number in range(8)])


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


FAULTS = {
    "TestForgetsPosition": "test_a_restore_at_any_point_neither_loses_nor_repeats",
    "TestForgetsUndealtSplits": "test_splits_nobody_was_given_survive_a_restore",
    "TestDealsTwice": "test_a_split_is_in_exactly_one_place",
    "TestAliasesItsSnapshot": "test_a_checkpoint_is_not_changed_by_reading_on",
    "TestOverlapsItsParts": "test_bounding_a_split_partitions_it",
    "TestIgnoresPauses": "test_a_paused_split_waits_and_the_others_go_on",
    "TestIsNotEvenRanged": "test_a_bounded_part_reads_the_same_again",
}
"""The clause that must find each fault of `broken_sources.py`."""


def test_the_kit_finds_every_fault(broken_clauses: Callable[[Path, dict[str, str]], set[str]]) -> None:
    found = broken_clauses(Path(__file__).with_name("broken_sources.py"), FAULTS)

    assert found == {f"{name}::{clause}" for name, clause in FAULTS.items()}
