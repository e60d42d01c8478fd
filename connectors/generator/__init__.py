"""Records computed from their numbers: for load tests, demonstrations and experiments."""

from __future__ import annotations

from tidegate.connectors.generator.fields import (
    Ascending as Ascending,
    DataGenSource as DataGenSource,
    FieldKind as FieldKind,
    OneOf as OneOf,
    RandomFloat as RandomFloat,
    RandomInt as RandomInt,
    RandomText as RandomText,
)
from tidegate.connectors.generator.source import (
    GeneratorSource as GeneratorSource,
    NumberSequenceSource as NumberSequenceSource,
)

__all__ = [
    "Ascending",
    "DataGenSource",
    "FieldKind",
    "GeneratorSource",
    "NumberSequenceSource",
    "OneOf",
    "RandomFloat",
    "RandomInt",
    "RandomText",
]
