"""File format of log segments and in-memory bases: self-describing, versioned, with checksums.

    magic "TGSG" | format version (2) | number of entries (8) | body | xxh3-64 of everything before (8)

The body is msgpack: the state table, then the entries in order; the last entry of an address wins. Integers are
big-endian.

Example:
    >>> data = encode_segment(Segment((), [(b"a", b"1"), (b"b", None)]))
    >>> decode_segment(data, "example").entries
    [(b'a', b'1'), (b'b', None)]
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

import msgspec
import xxhash

from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Address, Chunk, Entry, SnapshotFiles, StoredChunk
from tidegate.errors import StateCorruptError, StateFormatError

__all__ = [
    "FORMAT_VERSION",
    "Segment",
    "chunk_size",
    "decode_segment",
    "encode_changes",
    "encode_parts",
    "encode_segment",
    "read_segment",
    "write_segment",
]

FORMAT_VERSION: Final = 3
_SINCE: Final = {"ordered_map": 3}
"""Kinds of states that are not in version 2, which is written if none of them is used: earlier versions can read it."""

_MAGIC: Final = b"TGSG"
_HEAD: Final = struct.Struct(">4sHQ")
_CHECKSUM: Final = struct.Struct(">Q")
_PART: Final = 500


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """What one segment holds."""

    table: tuple[StateEntry, ...]
    entries: list[Entry]


def encode_segment(segment: Segment) -> bytes:
    """The bytes of a segment file."""
    return _sealed(len(segment.entries), (_ENCODER.encode(segment),), segment.table)


def encode_parts(parts: Iterable[Sequence[Entry]], limit: int) -> Iterator[bytes]:
    """Segment files without a state table for entries that come in parts, at least one; each ends with the part that
    makes it as large as `limit` bytes.

    Example:
        >>> first, second = encode_parts([[(b"a", b"1")], [(b"b", None), (b"c", b"2")], [(b"d", b"3")]], 12)
        >>> first == encode_segment(Segment((), [(b"a", b"1"), (b"b", None), (b"c", b"2")]))
        True
    """
    count, size, encoded, some = 0, 0, list[bytes](), False
    for part in parts:
        encoded.append(_bare(part))
        count += len(part)
        size += len(encoded[-1])
        if size >= limit:
            yield _sealed(count, (_without_table(count), *encoded))
            count, size, encoded, some = 0, 0, [], True
    if encoded or not some:
        yield _sealed(count, (_without_table(count), *encoded))


def encode_changes(table: tuple[StateEntry, ...], changes: Mapping[Address, bytes | None]) -> bytes:
    """The bytes of a segment file, encoded a part at a time: so many tuples at once would be as many for the garbage
    collector, which then looks at everything there is.

    Example:
        >>> encode_changes((), {b"a": b"1", b"b": None}) == encode_segment(Segment((), [(b"a", b"1"), (b"b", None)]))
        True
    """
    return _sealed(len(changes), tuple(_body(table, changes)), table)


def write_segment(path: Path, entries: Mapping[Address, bytes | None]) -> None:
    """Write a segment file without a state table, a part at a time: never are all entries there once more, encoded."""
    digest = xxhash.xxh3_64()
    with path.open("wb") as file:
        for piece in chain((_head(len(entries)),), _body((), entries)):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())


def decode_segment(data: bytes, name: str) -> Segment:
    """What `encode_segment` wrote; `name` is what messages call the file.

    Raises:
        StateCorruptError: it is truncated, damaged or no segment at all.
        StateFormatError: a newer version wrote it.
    """
    content, checksum = memoryview(data)[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if len(content) < _HEAD.size or not data.startswith(_MAGIC):
        raise _corrupt(name, f"got {len(data)} bytes starting with {data[:4]!r}; expected {_MAGIC!r}")
    _, version, count = _HEAD.unpack_from(content)
    if version > FORMAT_VERSION:
        raise StateFormatError(
            f"state segment {name}: format version {version} is newer than supported {FORMAT_VERSION}; "
            "upgrade tidegate or restore an older checkpoint"
        )
    if _CHECKSUM.pack(xxhash.xxh3_64_intdigest(content)) != checksum:
        raise _corrupt(name, f"got checksum {checksum.hex()}; expected that of its {len(content)} bytes")
    try:
        segment = _DECODER.decode(content[_HEAD.size :])
    except msgspec.DecodeError as error:
        raise _corrupt(name, "its body cannot be decoded") from error
    if len(segment.entries) != count:
        raise _corrupt(name, f"got {len(segment.entries)} entries; expected {count}")
    return segment


def read_segment(files: SnapshotFiles, chunk: Chunk) -> Segment:
    """Fetch and decode a segment; raises as `decode_segment` and `SnapshotFiles.fetch` do."""
    name = chunk.name if isinstance(chunk, StoredChunk) else "in the metadata"
    return decode_segment(files.fetch(chunk), name)


def chunk_size(chunk: Chunk) -> int:
    """How many bytes a chunk refers to."""
    return chunk.size if isinstance(chunk, StoredChunk) else len(chunk.data)


def _sealed(count: int, body: Sequence[bytes], table: Iterable[StateEntry] = ()) -> bytes:
    parts = (_head(count, table), *body)
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    return b"".join((*parts, digest.digest()))


def _head(count: int, table: Iterable[StateEntry] = ()) -> bytes:
    version = max((_SINCE.get(entry.kind, 2) for entry in table), default=2)
    return _HEAD.pack(_MAGIC, version, count)


def _body(table: tuple[StateEntry, ...], entries: Mapping[Address, bytes | None]) -> Iterator[bytes]:
    """The body of a segment, in parts."""
    yield _array(2) + _ENCODER.encode(table) + _array(len(entries))
    items = iter(entries.items())
    while part := list(islice(items, _PART)):
        yield _bare(part)


def _without_table(count: int) -> bytes:
    """Prefix of a body with this number of entries."""
    return _array(2) + _array(0) + _array(count)


def _bare(part: Sequence[Entry]) -> bytes:
    """Entries as a part of a longer array."""
    return _ENCODER.encode(part)[len(_array(len(part))) :]


def _array(length: int) -> bytes:
    """What an array of a length starts with in msgpack."""
    if length < 16:
        return bytes([0x90 | length])
    return struct.pack(">BH", 0xDC, length) if length < 1 << 16 else struct.pack(">BI", 0xDD, length)


def _corrupt(name: str, detail: str) -> StateCorruptError:
    return StateCorruptError(f"state segment {name} is damaged; {detail}; restore an older checkpoint")


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Segment)
