"""Parquet file of one state in a canonical savepoint: columns and schema metadata.

Columns are `key_group`, `key`, `namespace`, then `position` (lists), `map_key` (maps) or `time` (timers), then
`value`. Records of a key group stand together, by key; the schema metadata `tidegate` says what they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby, repeat
from operator import and_
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidegate.backends.keyed.table import MAPS, StateEntry
from tidegate.backends.savepoint.records import Record
from tidegate.backends.savepoint.shapes import (
    NOTHING,
    OPAQUE,
    Atom,
    Fields,
    Repeated,
    Shape,
    merge,
    observe,
    pack,
    settled,
    unpack,
)
from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.keys import canonical, key_bytes, key_group

__all__ = [
    "VERSION",
    "Header",
    "StateFile",
    "items_table",
    "key_groups_of",
    "read_file",
    "read_items",
    "read_table",
    "version_of",
    "write_items",
]

VERSION: Final = 2

_SINCE: Final = {"ordered_map": 2}
"""Kinds of states that are not in version 1, which is written for all others: earlier readers take it."""

_METADATA: Final = b"tidegate"
_SUB: Final[dict[str, str]] = {
    "list": "position",
    "map": "map_key",
    "ordered_map": "map_key",
    "timers": "time",
}
_BATCH: Final = 10_000
_ATOMS: Final[dict[str, pa.DataType]] = {
    "nothing": pa.bool_(),  # other tools do not read columns of type null
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "opaque": pa.binary(),
}


_ENTRY: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_DECLARED: Final[dict[Shape, type]] = {Atom("float"): float, Atom("bool"): bool}


class Header(msgspec.Struct, frozen=True):
    """What a file holds: a state of an operator, with the codec of its values, in columns of these shapes."""

    version: int
    operator: str
    state: StateEntry
    key: Shape
    map_key: Shape
    value: Shape


class ItemsHeader(msgspec.Struct, frozen=True):
    """Header of a file without keys: the kind of data of an operator, with a name if it is operator state."""

    version: int
    operator: str
    what: str
    name: str
    value: Shape


H = TypeVar("H", Header, ItemsHeader)


def version_of(state: StateEntry) -> int:
    """The version of the file of a state."""
    return _SINCE.get(state.kind, 1)


class StateFile:
    """A file in the making; to be used with `with`."""

    def __init__(self, path: Path, header: Header) -> None:
        self._header = header
        self._schema = _schema(header)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def add(self, group: int, records: Sequence[Record]) -> None:
        """Write the records of a key group, later ones after earlier ones, as a part that readers can skip."""
        columns = dict(zip(self._schema.names, _columns(self._header, group, records), strict=True))
        self._writer.write_table(pa.table(columns, self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()


def read_file(data: bytes, name: str) -> tuple[Header, Iterator[tuple[int, list[Record]]]]:
    """What a file says it holds, and its records by key group.

    Raises:
        StateCorruptError: it is not such a file.
        StateFormatError: it is of a newer version.
    """
    header, file = _open(pa.BufferReader(data), name, Header)
    return header, _groups(header, file)


def write_items(
    path: Path, operator: str, what: str, name: str, items: Mapping[int, Sequence[bytes]]
) -> None:
    """Write items that belong to no key, in order, by the subtask that holds them."""
    header = ItemsHeader(1, operator, what, name, _shape(chain.from_iterable(items.values())))
    columns = [("subtask", pa.int32()), ("position", pa.int64()), ("value", _type(header.value))]
    schema = pa.schema(columns, metadata={_METADATA: msgspec.json.encode(header)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for subtask, held in items.items():
            values = [unpack(header.value, item) for item in held]
            rows = {"subtask": [subtask] * len(held), "position": range(len(held)), "value": values}
            writer.write_table(pa.table(rows, schema))


def read_items(data: bytes, name: str) -> dict[int, list[bytes]]:
    """What `write_items` wrote, by subtask; raises as `read_file` does."""
    header, file = _open(pa.BufferReader(data), name, ItemsHeader)
    found: dict[int, list[bytes]] = {}
    for batch in file.iter_batches(_BATCH):
        for subtask, held in zip(batch["subtask"].to_pylist(), batch["value"].to_pylist(), strict=True):
            found.setdefault(subtask, []).append(pack(header.value, held))
    return found


def items_table(items: Mapping[int, Sequence[bytes]], *, mapped: bool) -> pa.Table:
    """Items that belong to no key as a table; with `mapped` they are entries of maps."""
    rows = [
        (subtask, position, item) for subtask, held in items.items() for position, item in enumerate(held)
    ]
    columns: dict[str, Any] = {"subtask": pa.array([row[0] for row in rows], pa.int32())}
    values = [row[2] for row in rows]
    if mapped:
        entries = [_ENTRY.decode(value) for value in values]
        columns["map_key"] = _column([key for key, _ in entries])
        values = [value for _, value in entries]
    else:
        columns["position"] = pa.array([row[1] for row in rows], pa.int64())
    return pa.table({**columns, "value": _column(values)})


def _shape(items: Iterable[bytes]) -> Shape:
    shape: Shape = NOTHING
    for item in items:
        shape = merge(shape, observe(item))
    return settled(shape)


def _column(items: Sequence[bytes]) -> pa.Array:
    shape = _shape(items)
    return pa.array([unpack(shape, item) for item in items], _type(shape))


def _open(source: Path | pa.BufferReader, name: str, kind: type[H]) -> tuple[H, pq.ParquetFile]:
    try:
        file = pq.ParquetFile(source)
        described = file.schema_arrow.metadata[_METADATA]
        version = msgspec.json.decode(described, type=_Versioned).version
    except (pa.ArrowException, KeyError, TypeError, msgspec.DecodeError) as error:
        raise StateCorruptError(
            f"{name} is not a canonical savepoint file; got {_size(source)} bytes; expected Parquet with metadata "
            "'tidegate'; use another savepoint"
        ) from error
    if version > VERSION:
        raise StateFormatError(
            f"{name}: version {version} of canonical savepoints is newer than supported {VERSION}; "
            "upgrade tidegate or use another savepoint"
        )
    return msgspec.json.decode(described, type=kind), file


_NO_FILE: Final = pa.schema(
    [("key_group", pa.int32()), ("key", pa.null()), ("namespace", pa.binary()), ("value", pa.null())]
)


def read_table(
    files: Sequence[Path],
    max_parallelism: int,
    *,
    key: Any = None,
    namespace: bytes | None = None,
    chosen: pc.Expression | None = None,
) -> pa.Table:
    """The records in files of one state: of one key, of one namespace, where `chosen` holds.

    Parts of the files that cannot hold any of them are not read. Without a file, whose schema would say more, there are the
    columns of every state.
    """
    if not files:
        return _NO_FILE.empty_table()
    header, _ = _open(files[0], files[0].name, Header)
    wanted = [] if chosen is None else [chosen]
    if namespace is not None:
        wanted.append(pc.field("namespace") == namespace)
    held = None
    if key is not None:
        data = _key_of(header.key, key)
        same = merge(header.key, observe(data)) == header.key or header.key == OPAQUE
        # No row has a key of another shape; what cannot be compared is not.
        wanted.append(pc.field("key_group") == key_group(data, max_parallelism) if same else pc.scalar(False))
        held = unpack(header.key, data) if same else None
        if isinstance(header.key, Atom) and same:
            wanted.append(pc.field("key") == held)
    found = ds.dataset(files, format="parquet").to_table(filter=reduce(and_, wanted) if wanted else None)
    if isinstance(header.key, Atom) or held is None:
        return found
    return found.filter(pa.array([other == held for other in found["key"].to_pylist()], pa.bool_()))


def key_groups_of(key: Any, max_parallelism: int) -> frozenset[int]:
    """The key groups that may hold a key, for any parallelism of its operator."""
    shapes = (OPAQUE, *_DECLARED)
    return frozenset(key_group(_key_of(shape, key), max_parallelism) for shape in shapes)


def _key_of(shape: Shape, key: Any) -> bytes:
    """The bytes of a key as its operator has them: declared types keep what Python calls equal apart."""
    plain = canonical(key)
    declared = _DECLARED.get(shape) if isinstance(shape, Atom) else None
    with contextlib.suppress(OverflowError):  # no float is that large, so no declared one equals it
        return key_bytes(declared(plain) if declared is not None and type(plain) is int else plain)
    return key_bytes(plain)


def _size(source: Path | pa.BufferReader) -> int:
    return source.stat().st_size if isinstance(source, Path) else source.size()


class _Versioned(msgspec.Struct):
    version: int


def _schema(header: Header) -> pa.Schema:
    kind = header.state.kind
    fields = [("key_group", pa.int32()), ("key", _type(header.key)), ("namespace", pa.binary())]
    if kind in _SUB:
        fields.append((_SUB[kind], _type(header.map_key) if kind in MAPS else pa.int64()))
    if kind != "timers":
        fields.append(("value", _type(header.value)))
    return pa.schema(fields, metadata={_METADATA: msgspec.json.encode(header)})


def _type(shape: Shape) -> pa.DataType:
    match shape:
        case Atom():
            return _ATOMS[shape.kind]
        case Repeated():
            return pa.list_(_type(shape.item))
        case Fields():
            names = shape.names or [f"f{place}" for place in range(len(shape.items))]
            return pa.struct(list(zip(names, map(_type, shape.items), strict=True)))


def _columns(header: Header, group: int, records: Sequence[Record]) -> Iterator[list[Any]]:
    kind = header.state.kind
    yield [group] * len(records)
    yield [unpack(header.key, record.key) for record in records]
    yield [record.namespace for record in records]
    if kind in MAPS:
        yield [unpack(header.map_key, record.sub) for record in records]
    elif kind in _SUB:
        yield [record.sub for record in records]
    if kind != "timers":
        yield [unpack(header.value, record.value) for record in records]


def _groups(header: Header, file: pq.ParquetFile) -> Iterator[tuple[int, list[Record]]]:
    rows = (row for batch in file.iter_batches(_BATCH) for row in zip(*_lists(header, batch), strict=True))
    for group, members in groupby(rows, key=lambda row: row[0]):
        yield group, [Record(*row[1:]) for row in members]


def _lists(header: Header, batch: pa.RecordBatch) -> Iterator[Iterable[Any]]:
    kind = header.state.kind
    yield batch["key_group"].to_pylist()
    yield [pack(header.key, held) for held in batch["key"].to_pylist()]
    yield batch["namespace"].to_pylist()
    if kind in MAPS:
        yield [pack(header.map_key, held) for held in batch["map_key"].to_pylist()]
    else:
        yield batch[_SUB[kind]].to_pylist() if kind in _SUB else repeat(None, len(batch))
    if kind == "timers":
        yield repeat(b"", len(batch))
    else:
        yield [pack(header.value, held) for held in batch["value"].to_pylist()]
