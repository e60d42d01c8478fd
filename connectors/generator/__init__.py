"""Records computed from their numbers: for load tests, demonstrations and experiments."""

from __future__ import annotations

from tidegate.connectors.generator.source import (
    GeneratorSource as GeneratorSource,
    NumberSequenceSource as NumberSequenceSource,
)

__all__ = ["GeneratorSource", "NumberSequenceSource"]
