"""Client of fastavro for files; the blocks of Avro files are read and written here."""

from __future__ import annotations

import bz2
import functools
import json
import lzma
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from tidegate.clock import new_id
from tidegate.connectors.base.part_file import Content, Summed
from tidegate.connectors.files import _arrow
from tidegate.connectors.files.reading import Piece
from tidegate.connectors.files.split import FileSplit
from tidegate.errors import ConfigError, MissingExtraError, RecordError
from tidegate.row import Row

try:
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as missing:
    raise MissingExtraError("Avro is not installed; run: pip install 'tidegate[formats]'") from missing

__all__ = ["AvroContent", "Block", "Layout", "encoded", "field_names", "layout", "pieces", "values_of"]

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_AT_ONCE: Final = 1 << 14
"""From how many bytes on, as the file has them, blocks become values: few enough that no checkpoint has to wait for long."""
_HEAD: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC}},
        ],
    }
)
_PACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "snappy": lambda data: _arrow.snappy(data) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": _arrow.zstandard,
}
_UNPACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompress(data, wbits=-15),
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
    "snappy": lambda data: _checked(_arrow.from_snappy(data[:-4]), data[-4:]),
    "zstandard": _arrow.from_zstandard,
}


@dataclass(frozen=True, slots=True)
class Block:
    """Some records of a file: from which row on, how many, and where their bytes are."""

    first: int
    rows: int
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file says of itself, and its blocks."""

    schema: str
    codec: str
    sync: bytes
    blocks: tuple[Block, ...]


def layout(path: str) -> Layout:
    """How a file is made, found by going from block to block; remembered while the file stays as it is.

    Raises:
        OSError: it cannot be read.
        RecordError: it is no Avro, or not whole.
    """
    found = Path(path).stat()
    return _layout(path, found.st_size, found.st_mtime_ns)


def pieces(split: FileSplit, wanted: str | None, columns: tuple[str, ...] | None) -> Iterator[Piece]:
    """The records of a part from its beginning on.

    Raises:
        ConfigError: a column is not there, or `wanted` is not a schema.
        RecordError: the file is damaged, or its records cannot be made to fit.
    """
    known = layout(split.path)
    make = _Values(split.path, known, wanted, columns)
    with Path(split.path).open("rb") as file:
        blocks = [
            block
            for block in known.blocks
            if block.first < split.stop and block.first + block.rows > split.at
        ]
        for some in _together(blocks):
            values, first = make.of(file, some), some[0].first
            start, end = max(first, split.at), min(first + len(values), split.stop)
            yield Piece(values[start - first : end - first], range(start, end + 1))


def values_of(source: IO[bytes], wanted: str) -> Iterator[list[Any]]:
    """All records of an open file.

    Raises:
        RecordError: it is damaged.
    """
    name = str(getattr(source, "name", "of a sink"))
    known = _scanned(source, name)
    make = _Values(name, known, wanted, None)
    for some in _together(known.blocks):
        yield make.of(source, some)


def field_names(schema: str) -> tuple[str, ...]:
    """The fields of a record.

    Raises:
        ConfigError: it is not a schema, or not one of a record.
    """
    found = _parsed(schema)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise ConfigError(f"Avro schema {schema:.80} is not a record; expected the schema of a record")
    return tuple(field["name"] for field in found["fields"])


def encoded(values: list[Any], schema: str) -> bytes:
    """Records in sequence, without a header.

    Raises:
        RecordError: one does not match the schema, or would not come back the same.
    """
    names, known = field_names(schema), _parsed(schema)
    records = [_record(value, names) for value in values]
    into = BytesIO()
    for record in records:
        try:
            fastavro.schemaless_writer(into, known, record, strict_allow_default=True)
        except Exception as error:
            # fastavro has no error class: a value may raise anything.
            raise RecordError(
                f"record {record!r:.80} does not match the Avro schema: {type(error).__name__}: {error}; map it first"
            ) from error
    data = into.getvalue()
    came = _decoded(_head(schema) + _framed(len(records), data, bytes(_SYNC)), None)
    if came != records:
        for record, back in zip(records, came, strict=True):
            if not _same(record, back):
                raise RecordError(
                    f"record {record!r:.80} would be read back from Avro as {back!r:.80}; expected values that "
                    "the schema can hold; map it first"
                )
    return data


class AvroContent(Content):
    """An Avro file in the making; blocks are written when they have their bytes."""

    def __init__(self, file: Summed, schema: str, codec: str, block_bytes: int) -> None:
        self._file = file
        self._pack = _PACK[codec]
        self._most = block_bytes
        # What ends a block must not occur by chance within one.
        self._sync = bytes.fromhex(new_id(2 * _SYNC))
        self._rows = 0
        self._data = bytearray()
        file.write(_head(schema, codec, self._sync))

    def write(self, chunk: tuple[int, bytes]) -> None:
        """Collect records."""
        rows, data = chunk
        self._rows += rows
        self._data += data
        if len(self._data) >= self._most:
            self._flush()

    def end(self) -> None:
        """Write the last block."""
        if self._rows:
            self._flush()

    def _flush(self) -> None:
        self._file.write(_framed(self._rows, self._pack(bytes(self._data)), self._sync))
        self._rows, self._data = 0, bytearray()


class _Values:
    """Makes values of blocks of one file."""

    def __init__(self, path: str, known: Layout, wanted: str | None, columns: tuple[str, ...] | None) -> None:
        self._path = path
        self._sync = known.sync
        self._head = _head(known.schema)
        if known.codec not in _UNPACK:
            raise RecordError(
                f"file {path} has the unknown codec {known.codec!r}; expected one of {', '.join(_UNPACK)}"
            )
        self._unpack = _UNPACK[known.codec]
        self._wanted: Any = None if wanted is None else _parsed(wanted)
        if columns is not None:
            self._wanted = _only(path, self._wanted or _parsed(known.schema), columns)

    def of(self, file: IO[bytes], blocks: Sequence[Block]) -> list[Any]:
        """The records of blocks that follow each other."""
        data = bytearray(self._head)
        row = blocks[0].first
        try:
            for block in blocks:
                row = block.first
                file.seek(block.at)
                data += _framed(block.rows, self._unpack(file.read(block.size)), bytes(_SYNC))
            row = blocks[0].first
            return _decoded(bytes(data), self._wanted)
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            # Of fastavro, pyarrow and each of the packers: what is damaged may raise anything.
            raise self._damaged(row, error) from error

    def _damaged(self, row: int, error: Exception) -> RecordError:
        return RecordError(
            f"file {self._path} cannot be read from row {row} on: {type(error).__name__}: {error}; it is damaged, "
            "or its schema cannot be resolved to the requested schema"
        )


@functools.lru_cache(maxsize=16)
def _layout(path: str, size: int, changed_ns: int) -> Layout:
    with Path(path).open("rb") as file:
        return _scanned(file, path)


def _scanned(file: IO[bytes], path: str) -> Layout:
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise RecordError(
            f"file {path} is not a valid Avro file: it does not start with {_MAGIC!r}; expected a complete file"
        )
    file.seek(0)
    try:
        head: Any = fastavro.schemaless_reader(file, _HEAD, None)
        meta, sync = head["meta"], head["sync"]
        schema, codec = meta["avro.schema"].decode(), meta.get("avro.codec", b"null").decode()
    except Exception as error:
        raise RecordError(
            f"file {path} is not a valid Avro file: its header is damaged; expected a complete file"
        ) from error
    blocks: list[Block] = []
    first = 0
    while (begin := file.tell()) < size:
        rows, length = _long(file), _long(file)
        block = Block(first, rows, file.tell(), length)
        file.seek(max(0, length), 1)
        if rows < 0 or length < 0 or file.read(_SYNC) != sync:
            raise RecordError(
                f"file {path} is damaged: the block at byte {begin} has no valid sync marker; expected a complete "
                "file"
            )
        blocks.append(block)
        first += rows
    return Layout(schema, codec, sync, tuple(block for block in blocks if block.rows))


def _together(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks in groups, to share the cost per block."""
    some: list[Block] = []
    size = 0
    for block in blocks:
        some.append(block)
        size += block.size
        if size >= _AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _record(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A record by its names, or by position if it has none."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Row) and value.names:
        return value.as_dict(recursive=True)
    if isinstance(value, (Row, tuple)) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    raise RecordError(
        f"record {value!r:.80} is a {type(value).__name__}; expected a dictionary, or a row or tuple of {len(names)}"
    )


def _same(given: Any, back: Any) -> bool:
    """Whether a value came back; a field that was not given has its default, a number may have more digits."""
    if isinstance(given, dict) and isinstance(back, dict):
        return all(name in back and _same(each, back[name]) for name, each in given.items())
    if isinstance(given, list) and isinstance(back, list):
        return len(given) == len(back) and all(map(_same, given, back))
    if isinstance(given, float) and isinstance(back, float):
        # A column of four bytes was asked for by the schema.
        return math.isclose(given, back, rel_tol=1e-6) or given != given
    return bool(given == back)


def _only(path: str, schema: Any, columns: tuple[str, ...]) -> Any:
    """A schema with fewer fields: Avro's reader passes over the others."""
    fields = {field["name"]: field for field in schema["fields"]}
    for name in columns:
        if name not in fields:
            raise ConfigError(f"file {path} has no column {name!r}; expected one of {', '.join(fields)}")
    return {**schema, "fields": [fields[name] for name in columns]}


@functools.lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(schema))
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise ConfigError(
            f"invalid Avro schema {schema:.80} ({type(error).__name__}: {error}); expected JSON"
        ) from error


def _head(schema: str, codec: str = "null", sync: bytes = bytes(_SYNC)) -> bytes:
    """What a file begins with."""
    into = BytesIO()
    meta = {"avro.schema": schema.encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(into, _HEAD, {"magic": _MAGIC, "meta": meta, "sync": sync})
    return into.getvalue()


def _framed(rows: int, data: bytes, sync: bytes) -> bytes:
    """A block."""
    into = BytesIO()
    for number in (rows, len(data)):
        fastavro.schemaless_writer(into, "long", number)
    return into.getvalue() + data + sync


def _decoded(file: bytes, wanted: Any) -> list[Any]:
    return list(fastavro.reader(BytesIO(file), wanted))


def _long(file: IO[bytes]) -> int:
    """A number as Avro writes it; negative where a file ends within one."""
    number = shift = 0
    while byte := file.read(1):
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
    return -1


def _checked(data: bytes, checksum: bytes) -> bytes:
    if zlib.crc32(data).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum of a block differs")
    return data
