"""Write the table of docs/connectors.md that says what each connector guarantees: what its kit run has passed, and no more.

The last run of the tests leaves what every clause of the kits came to in `.cache/clauses.json`; classes name their
connector by `@pytest.mark.connector`. `--check` compares the page with it, and says which connector has no kit run.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from tidegate.testing import sink, source

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / ".cache" / "clauses.json"
PAGE = ROOT / "docs" / "connectors.md"
BEGIN, END = "<!-- guarantees: begin -->\n", "<!-- guarantees: end -->\n"

Clauses = dict[str, bool]

_SOURCES: Final = {
    "every record once": (
        "one_reader_reads",
        "three_readers_read",
        "description_survives",
        "positions_of_a_split",
        "wall_clock_that_is_set_back",
    ),
    "restart anywhere": (
        "restore_at_any_point",
        "survive_a_restore",
        "unread_splits",
        "not_changed_by_reading",
        "split_of_another_source",
    ),
    "rescale": ("restore_at_another_parallelism", "exactly_one_place"),
    "old savepoint, branch": ("older_checkpoint",),
    "splits pause": ("that_was_assigned", "paused_split"),
    "bounded parts": ("bounding_a_split", "bounded_part"),
}
_SINKS: Final = {
    "every record": ("every_record_is_visible", "description_survives", "empty_batch"),
    "invisible until decided": ("nothing_is_visible_before", "committed_apart", "without_records_prepares"),
    "exactly once": ("commit_makes_every", "second_commit", "interrupted_commit", "two_attempts"),
    "kill -9": (
        "killed_one_prepared",
        "killed_while_writing",
        "killed_is_recognised",
        "killed_before_its_first",
        "killed_inside_a_commit",
    ),
    "leftovers removed": ("abort_",),
    "two owners": ("owner_replaced_before", "replaced_owner_that_checks", "new_owner_fences"),
    "rescale": ("fewer_writers",),
    "branch": ("branch_writes",),
    "expiry": ("expires_by_the_age",),
}
"""What a column of the table says, by parts of the names of the clauses that prove it."""

NOT_REPLAYABLE: Final = {
    "socket.source": "a socket cannot go back; tested against a server",
    "functions.source": "what a function can do is its own; tested in jobs",
    "blackhole.sink": "nothing comes out; tested that nothing does",
}
"""Connectors that the kits are not for, with the reason."""


def main() -> int:
    """Write the table, or with `--check` compare it."""
    if not RECORD.exists():
        sys.exit(f"{RECORD} does not exist; run the tests of tests/conformance first")
    passed: dict[str, Clauses] = json.loads(RECORD.read_text(encoding="utf-8"))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    page = f"{head}{BEGIN}{tables(passed)}{END}{tail}"
    problems = [*unproven(passed), *unassigned()]
    if "--check" not in sys.argv:
        PAGE.write_text(page, encoding="utf-8")
    elif page != PAGE.read_text(encoding="utf-8"):
        problems.append("docs/connectors.md says something else than the last kit run: run make guarantees")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def tables(passed: dict[str, Clauses]) -> str:
    """The tables of sources and of sinks."""
    return "\n".join(
        _table(kind, columns, {name: found for name, found in passed.items() if name.endswith(f".{kind}")})
        for kind, columns in (("source", _SOURCES), ("sink", _SINKS))
    )


def _table(kind: str, columns: dict[str, tuple[str, ...]], passed: dict[str, Clauses]) -> str:
    lines = [f"| {kind} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for name, clauses in sorted(passed.items()):
        cells = [_cell(clauses, parts) for parts in columns.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += [
        f"| `{name}` | {why}{' |' * len(columns)}"
        for name, why in sorted(NOT_REPLAYABLE.items())
        if name.endswith(f".{kind}")
    ]
    return "\n".join(lines) + "\n"


def _cell(clauses: Clauses, parts: tuple[str, ...]) -> str:
    outcomes = [outcome for clause, outcome in clauses.items() if any(part in clause for part in parts)]
    return f"yes ({len(outcomes)})" if outcomes and all(outcomes) else "**no**" if outcomes else ""


def unproven(passed: dict[str, Clauses]) -> list[str]:
    """Registered connectors that no kit has run for."""
    registered = {point.name for point in entry_points(group="tidegate.connectors")}
    needed = {name for name in registered if name.endswith((".source", ".sink"))} - NOT_REPLAYABLE.keys()
    return [
        f"connector {name} has no kit run: mark its class with its name"
        for name in sorted(needed - passed.keys())
    ]


def unassigned() -> list[str]:
    """Clauses of the kits that no column stands for."""
    suites = (source.RangedSourceSuite, source.PausingSourceSuite), (sink.ExpiringSinkSuite,)
    return [
        f"clause {clause} belongs to no column of the table"
        for columns, kits in zip((_SOURCES, _SINKS), suites, strict=True)
        for clause in sorted({name for kit in kits for name in dir(kit) if name.startswith("test_")})
        if sum(part in clause for parts in columns.values() for part in parts) != 1
    ]


if __name__ == "__main__":
    sys.exit(main())
