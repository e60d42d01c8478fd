"""Conformance kit for sources that support audits: the clauses of `SupportsAudit`.

Example:
    class TestOrders(AuditedSourceSuite):
        @pytest.fixture
        def target(self, tmp_path: Path) -> SourceTarget:
            return SourceTarget(orders_in(tmp_path), expected=ORDERS)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.clock import Clock, ManualClock
from tidegate.connectors.spi import Part, Remaining
from tidegate.runtime.audit.reading import Audited, read, read_one
from tidegate.testing.source import SourceRig, SourceTarget

__all__ = ["AuditedSourceSuite"]


class AuditedSourceSuite(ABC):
    """Every clause of an audited source. Subclass it as `Test...` and override `target` as a fixture."""

    @abstractmethod
    def target(self) -> Any:
        """The source and what it must read: at least three different records; a pytest fixture."""

    def test_an_extent_holds_every_record_once(self, target: SourceTarget) -> None:
        """Without a checkpoint, the parts hold all records, the last part is complete, and `later` is empty."""
        extent = _audited(target).extent()
        assert extent.later == ()
        assert all(part.start < part.end for part in extent.parts)
        _same(_values(target, extent.parts), target.expected)

    def test_a_checkpoint_divides_what_was_read_from_what_was_not(self, target: SourceTarget) -> None:
        """At any checkpoint: the parts hold the records read before it, `later` holds the rest."""
        expected = list(target.expected)
        for cut in range(len(expected) + 1):
            rig = SourceRig(target)
            before = rig.read(cut)
            taken = rig.checkpoint()
            rig.close()
            extent = _audited(target).extent(Remaining(taken.splits, taken.enumerator))
            later = _values(target, extent.later)
            _same(_values(target, extent.parts), before)
            _same(before + later, expected)

    def test_a_record_is_read_again_by_its_position(self, target: SourceTarget) -> None:
        """`only` finds each record by its part and position."""
        source, clock = _audited(target), _clock(target)
        for part, values, positions in list(read(source, source.extent().parts, clock)):
            for value, position in zip(values, positions, strict=True):
                _same([read_one(source, part, position, clock)], [value])


def _audited(target: SourceTarget) -> Audited:
    source: Any = target.source
    assert isinstance(source, Audited), "the source does not support audits; use SourceSuite"
    return source


def _clock(target: SourceTarget) -> Clock:
    return target.clock or ManualClock(1_000)


def _values(target: SourceTarget, parts: Sequence[Part]) -> list[Any]:
    if not parts:
        return []
    return [value for _, values, _ in read(_audited(target), parts, _clock(target)) for value in values]


def _same(values: Iterable[Any], expected: Iterable[Any]) -> None:
    """Equal as multisets, types included."""
    found, wanted = (sorted(f"{type(v).__name__} {v!r}" for v in some) for some in (values, expected))
    assert found == wanted
