"""Every source passes the kit that authors get."""

from __future__ import annotations

import pytest
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource

from tidegate.testing.source import RangedSourceSuite, SourceTarget
from tidegate.types import Types


class TestCollectionSource(RangedSourceSuite):
    """Values of the program."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(CollectionSource(range(10), Types.LONG()), expected=range(10))


class TestCollectionSourceOfFewerValuesThanReaders(RangedSourceSuite):
    """Some readers get nothing and say that they have finished."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(CollectionSource([(1, "a"), None]), expected=[(1, "a"), None])


class TestGeneratorSource(RangedSourceSuite):
    """Computed records, in more splits than readers."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = GeneratorSource(lambda number: number * number, count=11, splits=4)
        return SourceTarget(source, expected=[number * number for number in range(11)])


class TestPacedGeneratorSource(RangedSourceSuite):
    """The same at a limited rate."""

    @pytest.fixture
    def target(self) -> SourceTarget:
        source = GeneratorSource(str, count=8, splits=2, rate_per_second=1_000)
        return SourceTarget(source, expected=[str(number) for number in range(8)])
