"""Reader of canonical savepoint files as entries of a base, so that every backend can restore them.

Key groups follow from the keys: a base that is given another max parallelism holds the same state in other groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import ClassVar, Final

from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.savepoint.records import Record, assemble
from tidegate.backends.spi import (
    Address,
    BackendContext,
    BaseHandle,
    BaseReader,
    Chunk,
    InlineChunk,
    KeyedHandle,
)
from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.keys import KeyGroupRange, key_group

__all__ = ["NAME", "CanonicalBase", "file_name", "file_of", "groups_file", "is_canonical", "regrouped"]

NAME: Final = "canonical"
_GROUPS: Final = "max-parallelism"


class CanonicalBase(BaseReader):
    """Reads the bases that savepoints consist of.

    Example:
        >>> CanonicalBase().name
        'canonical'
    """

    name: ClassVar[str] = NAME

    def read(self, base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
        """The base's entries; in ascending order unless it was regrouped."""
        from tidegate.backends.savepoint._arrow import VERSION  # loads pyarrow

        if base.version > VERSION:
            raise StateFormatError(
                f"canonical savepoint: version {base.version} is newer than supported {VERSION}; "
                "upgrade tidegate or use another savepoint"
            )
        files = dict(base.files)
        groups = files.pop(_GROUPS, None)
        if not isinstance(groups, InlineChunk):
            raise StateCorruptError(
                f"canonical savepoint has no max parallelism; got files {list(files)}; expected {_GROUPS!r}; use "
                "another savepoint"
            )
        max_parallelism = int(groups.data)
        content = [_records(context.files.fetch(chunk), name) for name, chunk in files.items()]
        for _, members in groupby(merge(*content, key=_group), key=_group):
            records = {state: held for _, state, held in members}
            for at, value in assemble(records, lambda key: key_group(key, max_parallelism)):
                if value is not None:
                    yield at, value


def groups_file(max_parallelism: int) -> tuple[str, Chunk]:
    """The file with the number of key groups to read a base with."""
    return _GROUPS, InlineChunk(str(max_parallelism).encode())


def is_canonical(handle: KeyedHandle) -> bool:
    """Whether all that a handle holds is in canonical files, whose keys fit into any number of groups."""
    return handle.base is not None and handle.base.backend == NAME and len(handle.segments) == 1


def file_name(key_groups: KeyGroupRange) -> str:
    """What the file of a state in a range of key groups is called."""
    return f"{key_groups.first:05}-{key_groups.last - 1:05}.parquet"


def file_of(handle: KeyedHandle, folder: str) -> Chunk | None:
    """The canonical file of a state in just the key groups of a handle; None if there is none, as after regrouping."""
    if handle.base is None or not is_canonical(handle):
        return None
    return dict(handle.base.files).get(f"{folder}/{file_name(handle.key_groups)}")


def regrouped(handles: Sequence[KeyedHandle], max_parallelism: int) -> KeyedHandle:
    """Canonical handles of all key groups of an operator as one handle with another number of groups."""
    files = [file for handle in handles if handle.base for file in handle.base.files if file[0] != _GROUPS]
    version = max(handle.base.version for handle in handles if handle.base)
    base = BaseHandle(NAME, version, (groups_file(max_parallelism), *files))
    return KeyedHandle(KeyGroupRange(0, max_parallelism), base, handles[0].segments)


def _records(data: bytes, name: str) -> Iterator[tuple[int, StateEntry, list[Record]]]:
    from tidegate.backends.savepoint._arrow import read_file  # loads pyarrow

    header, groups = read_file(data, name)
    return ((group, header.state, records) for group, records in groups)


def _group(found: tuple[int, StateEntry, list[Record]]) -> int:
    return found[0]
