"""Result of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import msgspec

from tidegate.connectors.spi import Part

__all__ = ["KINDS", "AuditFinding", "Kind", "Side", "Verdict"]

Kind = Literal["missing", "duplicate", "unexpected"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One record that is not as it should be.

    `missing`: `places` are those of the input, `record` is what should be in the output. Otherwise they are those of the
    output: where a `duplicate` is found each time, where an `unexpected` one is.
    """

    kind: Kind
    places: tuple[str, ...]
    record: str


@dataclass(frozen=True, slots=True)
class Side:
    """What was read of the input or the output; `hidden` describes what could not be read."""

    name: str
    records: int
    parts: tuple[Part, ...]
    hidden: tuple[str, ...]

    @property
    def ranges(self) -> list[tuple[str, str, int, int]]:
        """Name, unit, start and end of its parts, those that follow each other as one."""
        found: list[tuple[str, str, int, int]] = []
        for part in self.parts:
            start = part.start
            if found and found[-1][:2] == (part.name, part.unit) and found[-1][3] == start:
                start = found.pop()[2]
            found.append((part.name, part.unit, start, part.end))
        return found

    def as_json(self) -> dict[str, Any]:
        """As JSON."""
        parts = [{"name": name, unit: [start, end]} for name, unit, start, end in self.ranges]
        return {"name": self.name, "records": self.records, "parts": parts, "hidden": list(self.hidden)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome: how many records are wrong in which way, the first of each kind by name."""

    input: Side
    output: Side
    expected: int
    """Number of output records expected from the input."""
    counts: dict[Kind, int]
    findings: tuple[AuditFinding, ...]
    checkpoint: int | None = None
    """The checkpoint whose input must be in the output; later input may be."""

    @property
    def proven(self) -> bool:
        """Whether no record is missing, duplicated or unexpected."""
        return not any(self.counts.values())

    def as_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "proven": self.proven,
            "expected": self.expected,
            **{str(kind): count for kind, count in self.counts.items()},
            "checkpoint": self.checkpoint,
            "input": self.input.as_json(),
            "output": self.output.as_json(),
            "findings": [msgspec.to_builtins(each) for each in self.findings],
        }
