"""Timeline of keyed state, read-only: the content of checkpoints, their differences and their integrity."""

from __future__ import annotations

from tidegate.backends.timeline.changes import Change as Change, changes as changes
from tidegate.backends.timeline.content import (
    Wanted as Wanted,
    of_keys as of_keys,
    records as records,
    table_of as table_of,
)
from tidegate.backends.timeline.journal import mutations as mutations
from tidegate.backends.timeline.soundness import conflicts as conflicts, damage as damage, defects as defects
from tidegate.backends.timeline.values import (
    Opaque as Opaque,
    key_of as key_of,
    keys_of as keys_of,
    spelled as spelled,
    sub_of as sub_of,
    value_of as value_of,
)

__all__ = [
    "Change",
    "Opaque",
    "Wanted",
    "changes",
    "conflicts",
    "damage",
    "defects",
    "key_of",
    "keys_of",
    "mutations",
    "of_keys",
    "records",
    "spelled",
    "sub_of",
    "table_of",
    "value_of",
]
