"""PyFlink's builder of hybrid sources."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.hybrid.source import HybridSource, Stage

__all__ = ["HybridSourceBuilder"]


@dataclass(frozen=True)
class HybridSourceBuilder:
    """Appends one source to another.

    Example:
        >>> from tidegate.datastream.connectors.hybrid_source import HybridSource
        >>> from tidegate.datastream.connectors.number_seq import NumberSequenceSource
        >>> history, more = NumberSequenceSource(1, 10), NumberSequenceSource(11, 20)
        >>> len(HybridSource.builder(history).add_source(more).build().stages)
        2
    """

    stages: tuple[Stage, ...]

    def add_source(self, source: Stage) -> HybridSourceBuilder:
        """Read this one then; a function makes it of where the one before ended."""
        return HybridSourceBuilder((*self.stages, source))

    def build(self) -> HybridSource:
        """The source."""
        return HybridSource(self.stages)
