"""Record comparison of the conformance kit, with readable differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["same"]

_SHOWN: Final = 5
"""How many records a failure names."""


def same(values: Iterable[Any], expected: Iterable[Any], when: str = "") -> None:
    """Check that two multisets are equal, including types; the error lists lost, duplicated and unknown records."""
    found, wanted = (Counter(f"{type(v).__name__} {v!r}" for v in some) for some in (values, expected))
    faults = {
        "lost": wanted - found,
        "doubled": Counter({each: more for each, more in (found - wanted).items() if wanted[each]}),
        "never written": Counter({each: more for each, more in (found - wanted).items() if not wanted[each]}),
    }
    said = [f"{fault}: {_shown(records, found, wanted)}" for fault, records in faults.items() if records]
    assert not said, f"{when or 'in the end'}: {'; '.join(said)}"


def _shown(records: Counter[str], found: Counter[str], wanted: Counter[str]) -> str:
    shown = [f"{each} (seen {found[each]} times, expected {wanted[each]})" for each in sorted(records)]
    rest = len(shown) - _SHOWN
    return ", ".join(shown[:_SHOWN]) + (f" and {rest} records more" if rest > 0 else "")
