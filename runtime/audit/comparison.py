"""Comparison of an output with the output expected for its input, in constant memory.

The output is looked at first: what is in it came from input that is there by then. Records are counted by fingerprint in
buckets on the local disk, so memory does not grow with them. Each is known by where it is; those that are named in the
end are read once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.clock import Clock
from tidegate.connectors.spi import Part, Remaining
from tidegate.errors import ConfigError, RecordError, UserCodeError
from tidegate.runtime.audit.buckets import Buckets, Row, fingerprint_of
from tidegate.runtime.audit.findings import KINDS, AuditFinding, Kind, Side, Verdict
from tidegate.runtime.audit.reading import Audited, open_side, read, read_one
from tidegate.runtime.audit.rule import Rule

__all__ = ["Comparison"]

_SEEN, _REQUIRED, _ALLOWED = range(3)
_PLACES: Final = 5
"""At most this many positions of a duplicated record are named."""
_SHOWN: Final = 200


class _Wrong(NamedTuple):
    """A fingerprint whose records are not as they should be, with the first places of them; in the order of these."""

    places: tuple[tuple[int, int], ...]
    fingerprint: bytes


class Comparison:
    """One audit.

    Args:
        input: URL of what a pipeline reads.
        output: URL of what it writes.
        rule: How their records belong together.
        directory: Where buckets are kept meanwhile.
        clock: For waiting.
        named: How many wrong records of each kind are named.

    Raises:
        ConfigError: a URL is not understood.
    """

    def __init__(
        self, input: str, output: str, rule: Rule, directory: Path, clock: Clock, named: int = 10
    ) -> None:
        self._names = (input, output)
        self._input = open_side(input)
        self._output = open_side(output)
        self._rule = rule
        self._directory = directory
        self._clock = clock
        self._named = named
        self._parts: list[Part] = []

    def verdict(self, remaining: Remaining | None = None, checkpoint: int | None = None) -> Verdict:
        """Read both sides and compare them.

        Input that a checkpoint says is still to be read may be in the output, as often as it is in the input; all other
        input must be.

        Raises:
            ConfigError: there was nothing to compare, or a side is not there.
            RecordError: a record cannot be read or compared.
            UnavailableError: a system or the local disk did not answer.
            UserCodeError: the function that says what to expect failed.
        """
        written, given = self._output.extent(), self._input.extent(remaining)
        with Buckets(self._directory) as buckets:
            note = buckets.add
            there, _ = self._note(self._output, written.parts, _SEEN, self._of_output, note)
            required, expected = self._note(self._input, given.parts, _REQUIRED, self._rule.of_input, note)
            self._note(self._input, given.later, _ALLOWED, self._rule.of_input, note)
            if not (there or required):
                raise ConfigError(
                    f"neither {self._names[0]} nor {self._names[1]} has a record in the requested range, so the audit proves "
                    "nothing; check the names and the range"
                )
            counts, wrong = _compared(buckets.each(), self._named)
        return Verdict(
            Side(self._names[0], required, given.parts, given.hidden),
            Side(self._names[1], there, written.parts, written.hidden),
            expected,
            counts,
            tuple(self._finding(kind, each) for kind in KINDS for each in wrong[kind]),
            checkpoint,
        )

    def _of_output(self, record: Any) -> list[bytes]:
        return [self._rule.of_output(record)]

    def _note(
        self,
        source: Audited,
        parts: Sequence[Part],
        role: int,
        identities: Callable[[Any], list[bytes]],
        note: Callable[[bytes, int, int, int], None],
    ) -> tuple[int, int]:
        """How many records there are, and how many they stand for."""
        numbers = {part.split.id: number for number, part in enumerate(parts, len(self._parts))}
        self._parts += parts
        records = stood_for = 0
        for part, values, positions in read(source, parts, self._clock) if parts else ():
            number = numbers[part.split.id]
            records += len(values)
            try:
                for value, position in zip(values, positions, strict=True):
                    for identity in identities(value):
                        note(identity, role, number, position)
                        stood_for += 1
            except (ConfigError, RecordError, UserCodeError) as error:
                raise type(error)(f"{_place(part, position)}: {error}") from error
        return records, stood_for

    def _finding(self, kind: Kind, wrong: _Wrong) -> AuditFinding:
        part, position = self._parts[wrong.places[0][0]], wrong.places[0][1]
        record = read_one(self._input if kind == "missing" else self._output, part, position, self._clock)
        if kind == "missing":
            expected = (each for each in self._rule.expected(record) if self._is(each, wrong.fingerprint))
            record = next(expected, record)
        places = [_place(self._parts[number], at) for number, at in wrong.places]
        return AuditFinding(kind, tuple(places), _text(record))

    def _is(self, record: Any, fingerprint: bytes) -> bool:
        return self._rule.expect is not None and fingerprint_of(self._rule.of_output(record)) == fingerprint


def _compared(lists: Iterable[list[Row]], named: int) -> tuple[dict[Kind, int], dict[Kind, list[_Wrong]]]:
    """How many records are wrong in which way, and the first fingerprints of each."""
    counts: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    wrong: dict[Kind, list[_Wrong]] = {kind: [] for kind in KINDS}
    for rows in lists:
        kinds = dict(_judged(rows, counts))
        places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for fingerprint, role, part, position in rows if kinds else ():
            kind = kinds.get(fingerprint)
            if kind is not None and role == (_REQUIRED if kind == "missing" else _SEEN):
                places[fingerprint].append((part, position))
        for fingerprint, found in places.items():
            wrong[kinds[fingerprint]].append(_Wrong(tuple(sorted(found)[:_PLACES]), fingerprint))
        for kind, each in wrong.items():
            wrong[kind] = sorted(each)[:named]
    return counts, wrong


def _judged(rows: list[Row], counts: dict[Kind, int]) -> Iterator[tuple[bytes, Kind]]:
    """The fingerprints that are wrong, and how; `counts` gets the records of each kind."""
    tallies: dict[bytes, list[int]] = {}
    for row in rows:
        tally = tallies.get(row[0])
        if tally is None:
            tally = tallies[row[0]] = [0, 0, 0]
        tally[row[1]] += 1
    for fingerprint, (seen, required, allowed) in tallies.items():
        if seen < required:
            counts["missing"] += required - seen
            yield fingerprint, "missing"
        elif seen > required + allowed:
            kind: Kind = "duplicate" if required + allowed else "unexpected"
            counts[kind] += seen - required - allowed
            yield fingerprint, kind


def _place(part: Part, position: int) -> str:
    return f"{part.name} {part.unit} {position}"


def _text(record: Any) -> str:
    try:
        text = msgspec.json.encode(record).decode()
    except (TypeError, ValueError):
        text = repr(record)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
