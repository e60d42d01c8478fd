"""Writer of canonical savepoints: one file per state and key-group range of an operator.

The state is read twice: columns get their types from all values, then the values are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from tidegate.backends.keyed.address import group_of, range_bounds
from tidegate.backends.keyed.restore import restore
from tidegate.backends.keyed.segment import Segment, encode_segment
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.savepoint.base import NAME, file_name, groups_file
from tidegate.backends.savepoint.records import TIMERS, Record, Records, disassemble, living
from tidegate.backends.savepoint.shapes import NOTHING, Shape, merge, observe, settled
from tidegate.backends.spi import Backend, BackendContext, BaseHandle, Chunk, InlineChunk, KeyedHandle
from tidegate.backends.storage import StorageFiles
from tidegate.keys import KeyGroupRange, ranges

if TYPE_CHECKING:
    from tidegate.backends.savepoint._arrow import Header

__all__ = ["folder", "write_keyed"]


def write_keyed(
    operator: str,
    handles: Sequence[KeyedHandle],
    max_parallelism: int,
    backend: Backend,
    context: BackendContext,
    target: StorageFiles,
    *,
    parts: int = 1,
    now_ms: int | None = None,
) -> tuple[KeyedHandle, ...]:
    """Write what `handles` hold of an operator below `target`, in `parts` ranges of key groups.

    What has expired by `now_ms` is left out, of states that ask for it. `backend` and `context` are what the state is opened with meanwhile. Every file is durable on return; nothing
    refers to them after a crash in between.

    Raises:
        StateCorruptError: a file of a handle is missing or damaged.
        UnavailableError: the target did not take a file.
    """
    everything = KeyGroupRange(0, max_parallelism)
    restored = restore(backend, everything, handles, context)
    table = restored.table.entries

    def read(key_groups: KeyGroupRange) -> Iterator[tuple[int, Records]]:
        entries = restored.materialisation.scan(*range_bounds(key_groups))
        for group, members in groupby(entries, key=lambda entry: group_of(entry[0])):
            records = disassemble(members, table)
            yield group, records if now_ms is None else living(records, now_ms)

    try:
        headers = _headers(operator, table, read(everything))
        return tuple(
            KeyedHandle(
                key_groups,
                _base(operator, headers, key_groups, max_parallelism, read, context, target),
                segments,
            )
            for segments in [(InlineChunk(encode_segment(Segment(table, []))),)]
            for key_groups in ranges(parts, max_parallelism)
        )
    finally:
        restored.materialisation.close()


def folder(operator: str, what: Literal["state", "timers"], name: str) -> str:
    """Where the files of a state are, named as tools expect that find columns in the names of folders."""
    return f"operator={quote(operator, safe='')}/{what}={quote(name, safe='')}"


def _headers(
    operator: str, table: Sequence[StateEntry], content: Iterator[tuple[int, Records]]
) -> dict[StateEntry, Header]:
    """What the files of each state say; a state that was declared has files though it be empty."""
    from tidegate.backends.savepoint._arrow import Header, version_of  # loads pyarrow

    shapes: dict[StateEntry, list[Shape]] = {state: [NOTHING] * 3 for state in (*table, *TIMERS)}
    for _, records in content:
        for state, members in records.items():
            shapes[state] = _observe(shapes[state], members)
    return {
        state: Header(version_of(state), operator, state, *map(settled, found))
        for state, found in shapes.items()
    }


def _observe(shapes: list[Shape], records: Sequence[Record]) -> list[Shape]:
    key, map_key, value = shapes
    for record in records:
        key = merge(key, observe(record.key))
        if isinstance(record.sub, bytes):
            map_key = merge(map_key, observe(record.sub))
        value = merge(value, observe(record.value))
    return [key, map_key, value]


def _base(
    operator: str,
    headers: dict[StateEntry, Header],
    key_groups: KeyGroupRange,
    max_parallelism: int,
    read: Callable[[KeyGroupRange], Iterator[tuple[int, Records]]],
    context: BackendContext,
    target: StorageFiles,
) -> BaseHandle:
    from tidegate.backends.savepoint._arrow import StateFile, version_of  # loads pyarrow

    paths = {state: context.directory / f"{number}.parquet" for number, state in enumerate(headers)}
    with ExitStack() as stack:
        files = {state: stack.enter_context(StateFile(paths[state], headers[state])) for state in headers}
        for group, records in read(key_groups):
            for state, members in records.items():
                files[state].add(group, members)
    stored: list[tuple[str, Chunk]] = [groups_file(max_parallelism)]
    for state, path in paths.items():
        name = f"{folder(operator, _what(state), state.name)}/{file_name(key_groups)}"
        stored.append((name, target.store_as(name, path)))
        path.unlink()
    return BaseHandle(NAME, max(map(version_of, headers)), tuple(stored))


def _what(state: StateEntry) -> Literal["state", "timers"]:
    return "timers" if state.kind == "timers" else "state"
