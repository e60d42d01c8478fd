"""Parquet files of a canonical savepoint for state without keys: operator state, splits, enumerators, writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from tidegate.backends import savepoint
from tidegate.backends.spi import SnapshotFiles
from tidegate.backends.storage import StorageFiles
from tidegate.ids import OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, Table, Unkeyed
from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["export_unkeyed", "import_unkeyed"]


def export_unkeyed(operator: OperatorState, target: StorageFiles) -> tuple[OperatorState, tuple[Table, ...]]:
    """The operator without its items that belong to no key, and the files below `target` that hold them.

    Raises:
        UnavailableError: the target did not take a file.
    """
    held: dict[tuple[Unkeyed, str], dict[int, Sequence[bytes]]] = {
        ("splits", ""): {0: operator.splits},
        ("writers", ""): {0: operator.writers},
        ("enumerator", ""): {0: () if operator.coordinator is None else (operator.coordinator,)},
    }
    for subtask, lists in enumerate(operator.lists):
        for each in lists:
            held.setdefault(("list", each.name), {})[subtask] = each.items
    tables: list[Table] = []
    with OwnedDirectory("savepoint") as scratch:
        for (what, name), items in held.items():
            if any(items.values()):
                path = scratch / f"{len(tables)}.parquet"
                savepoint.write_items(path, operator.uid, what, name, items)
                chunk = target.store_as(_file(operator.uid, what, name), path)
                tables.append(Table(operator.uid, what, name, chunk))
    lists_left = tuple(
        tuple(msgspec.structs.replace(each, items=()) for each in lists) for lists in operator.lists
    )
    bare = msgspec.structs.replace(operator, splits=(), writers=(), coordinator=None, lists=lists_left)
    return bare, tuple(tables)


def import_unkeyed(manifest: Manifest, files: SnapshotFiles) -> Manifest:
    """A savepoint's manifest with what its files hold, as that of a checkpoint.

    Raises:
        StateCorruptError: a file is missing or damaged.
        StateFormatError: a file is of a newer version.
    """
    found = {
        (table.operator, table.what, table.name): savepoint.read_items(
            files.fetch(table.chunk), table.chunk.name
        )
        for table in manifest.tables
    }
    return msgspec.structs.replace(
        manifest, operators=tuple(_filled(each, found) for each in manifest.operators), tables=()
    )


def _filled(
    operator: OperatorState, found: Mapping[tuple[OperatorUid, Unkeyed, str], Mapping[int, Sequence[bytes]]]
) -> OperatorState:
    def items(what: Unkeyed, name: str = "", subtask: int = 0) -> tuple[bytes, ...]:
        return tuple(found.get((operator.uid, what, name), {}).get(subtask, ()))

    return msgspec.structs.replace(
        operator,
        splits=items("splits") or operator.splits,
        writers=items("writers") or operator.writers,
        coordinator=next(iter(items("enumerator")), operator.coordinator),
        lists=tuple(
            tuple(
                msgspec.structs.replace(each, items=items("list", each.name, subtask) or each.items)
                for each in lists
            )
            for subtask, lists in enumerate(operator.lists)
        ),
    )


def _file(uid: str, what: Unkeyed, name: str) -> str:
    folder = f"operator={quote(uid, safe='')}"
    return f"{folder}/{what}={quote(name, safe='')}.parquet" if name else f"{folder}/{what}.parquet"
