"""What stands in canonical files: columns that tools understand, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.unit.backends.savepoint.conftest import ALL, MAX_PARALLELISM, Place
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import (
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.savepoint import CanonicalBase, write_keyed
from tidegate.backends.savepoint._arrow import VERSION, Header, StateFile, read_file, read_table
from tidegate.backends.savepoint.records import Record
from tidegate.backends.savepoint.shapes import Atom
from tidegate.backends.spi import BaseHandle, Chunk, InlineChunk, KeyedHandle, StoredChunk, Timer
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.keys import key_bytes, key_group
from tidegate.types import Types

GOLDEN = Path(__file__).parents[3] / "golden" / "backends"
COUNT = ValueStateDescriptor("count", Types.LONG())
PAIR = ValueStateDescriptor("pair", Types.TUPLE([Types.STRING(), Types.LONG()]))
THING = ValueStateDescriptor("thing")
WORDS = ListStateDescriptor("words", Types.STRING())
BY_TIME = OrderedMapStateDescriptor("by time", Types.LONG(), Types.STRING())
SEEN = MapStateDescriptor("seen", Types.STRING(), Types.DOUBLE())


def fill(store: KeyedStore) -> None:
    for number, name in enumerate(("ada", "bob", "cyd")):
        store.bind(name)
        store.state(COUNT).update(number)
        store.state(PAIR).update((name, number))
        store.state(THING).update({number} if number else "text")
        store.state(WORDS).update([name, "x"])
        store.state(SEEN).put(name, 0.5)
        store.event_timers.register(Timer(number, name))
        store.bind_in(name, b"w")
        store.state(COUNT, namespaced=True).update(-number)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(FilesystemBackend(), tmp_path)


@pytest.fixture
def written(place: Place, tmp_path: Path) -> Path:
    """Canonical files on a local disk, in two ranges of key groups."""
    files = StorageFiles(LocalStorage(tmp_path / "root").blobs, "savepoint")
    native = place.taken(fill)
    write_keyed("totals", [native], MAX_PARALLELISM, place.backend, place.context(), files, parts=2)
    return tmp_path / "root" / "savepoint"


def table(folder: Path) -> pa.Table:
    return ds.dataset(folder, format="parquet").to_table()


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("state=count", {"key": pa.string(), "value": pa.int64()}),
        (
            "state=pair",
            {"key": pa.string(), "value": pa.struct([("f0", pa.string()), ("f1", pa.int64())])},
        ),
        ("state=thing", {"key": pa.string(), "value": pa.binary()}),
        ("state=words", {"position": pa.int64(), "value": pa.string()}),
        ("state=seen", {"map_key": pa.string(), "value": pa.float64()}),
        ("timers=event", {"time": pa.int64(), "key": pa.string()}),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_columns_are_typed_where_that_is_exact(
    written: Path, name: str, types: dict[str, pa.DataType]
) -> None:
    schema = table(written / "operator=totals" / name).schema
    assert {column: schema.field(column).type for column in types} == types
    assert schema.names[:3] == ["key_group", "key", "namespace"]


def test_records_stand_by_key_group_and_key(written: Path) -> None:
    counts = table(written / "operator=totals" / "state=count").to_pylist()
    expected = [
        {
            "key_group": key_group(key_bytes(name), MAX_PARALLELISM),
            "key": name,
            "namespace": namespace,
            "value": sign * number,
        }
        for number, name in enumerate(("ada", "bob", "cyd"))
        for namespace, sign in ((b"", 1), (b"w", -1))
    ]
    assert counts == sorted(expected, key=lambda row: (row["key_group"], row["key"], row["namespace"]))


def test_lists_keep_their_order_and_maps_their_keys(written: Path) -> None:
    root = written / "operator=totals"
    words = table(root / "state=words").filter(pc.field("key") == "bob")
    assert [(row["position"], row["value"]) for row in words.to_pylist()] == [(0, "bob"), (1, "x")]
    assert {(row["key"], row["map_key"]): row["value"] for row in table(root / "state=seen").to_pylist()} == {
        (name, name): 0.5 for name in ("ada", "bob", "cyd")
    }


def test_a_key_group_is_a_part_that_readers_skip(written: Path) -> None:
    files = sorted((written / "operator=totals" / "state=count").glob("*.parquet"))
    assert [file.name for file in files] == ["00000-00003.parquet", "00004-00007.parquet"]
    for file in files:
        metadata = pq.read_metadata(file)
        for part in range(metadata.num_row_groups):
            groups = metadata.row_group(part).column(0).statistics
            assert groups.min == groups.max


def test_parts_of_a_file_that_cannot_hold_a_record_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "state.parquet"
    atom = Atom("text")
    state = StateEntry("count", "value", 0, 0, "long", "msgspec", 1)
    names = sorted((f"user-{number}" for number in range(40)), key=lambda name: key_group(key_bytes(name), 8))
    with StateFile(path, Header(VERSION, "totals", state, atom, atom, Atom("int"))) as file:
        for group, members in groupby(names, key=lambda name: key_group(key_bytes(name), 8)):
            file.add(group, [Record(key_bytes(name), b"", None, key_bytes(group)) for name in members])
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups == 8
    whole = bytearray(path.read_bytes())
    kept = key_group(key_bytes("user-7"), 8)
    for number in range(metadata.num_row_groups):
        part = metadata.row_group(number)
        for column in range(part.num_columns if part.column(0).statistics.min != kept else 0):
            first = part.column(column).dictionary_page_offset or part.column(column).data_page_offset
            whole[first : first + part.column(column).total_compressed_size] = bytes(
                part.column(column).total_compressed_size
            )
    path.write_bytes(whole)

    assert read_table([path], 8, key="user-7")["value"].to_pylist() == [kept]
    chosen = read_table([path], 8, chosen=pc.field("value") == kept)
    assert set(chosen["key"].to_pylist()) == {name for name in names if key_group(key_bytes(name), 8) == kept}
    with pytest.raises(OSError):
        read_table([path], 8)


def broken(place: Place, change: Callable[[BaseHandle], BaseHandle]) -> None:
    (handle,) = place.write(place.taken(fill))
    assert handle.base is not None
    list(CanonicalBase().read(change(handle.base), place.context()))


def with_file(base: BaseHandle, data: bytes) -> BaseHandle:
    files: list[tuple[str, Chunk]] = [base.files[0], ("bad.parquet", InlineChunk(data))]
    return BaseHandle(base.backend, base.version, tuple(files))


def test_a_damaged_truncated_or_missing_file_is_refused(place: Place) -> None:
    (handle,) = place.write(place.taken(fill))
    names = [chunk.name for chunk in handle.chunks if isinstance(chunk, StoredChunk)]
    blobs = place.storage.blobs
    with blobs.open(names[0]) as file:
        good = file.read()
    for bad in (good[:-1], good[:100] + bytes([good[100] ^ 1]) + good[101:], b""):
        blobs.put(names[0], bad)
        with pytest.raises(StateCorruptError, match=r"count/00000-00007.parquet is damaged; got"):
            place.entries(handle)
    blobs.delete([names[0]])
    with pytest.raises(StateCorruptError, match="does not exist"):
        place.entries(handle)
    blobs.put(names[0], good)
    assert place.entries(handle)


@pytest.mark.parametrize("data", [b"", b"PAR1 and nothing more"], ids=["empty", "no Parquet"])
def test_what_is_no_savepoint_file_is_refused(place: Place, data: bytes) -> None:
    with pytest.raises(StateCorruptError, match=r"bad.parquet is not a canonical savepoint file; got"):
        broken(place, lambda base: with_file(base, data))


def foreign(metadata: dict[bytes, bytes] | None) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"key": ["a"]}).replace_schema_metadata(metadata), sink)
    return bytes(sink.getvalue())


def test_parquet_of_somebody_else_is_refused(place: Place) -> None:
    for data in (foreign(None), foreign({b"tidegate": b"no json"})):
        with pytest.raises(StateCorruptError, match="expected Parquet with metadata 'tidegate'"):
            broken(place, partial(with_file, data=data))


def test_newer_versions_are_refused(place: Place) -> None:
    newer = foreign({b"tidegate": b'{"version": 99, "unknown": {}}'})
    with pytest.raises(StateFormatError, match=r"bad.parquet: version 99 of canonical savepoints is newer"):
        broken(place, lambda base: with_file(base, newer))
    with pytest.raises(StateFormatError, match="canonical savepoint: version 3 is newer than supported 2"):
        broken(place, lambda base: BaseHandle(base.backend, VERSION + 1, base.files))


def test_a_base_without_max_parallelism_is_refused(place: Place) -> None:
    with pytest.raises(StateCorruptError, match="has no max parallelism"):
        broken(place, lambda base: BaseHandle(base.backend, base.version, base.files[1:]))


def test_an_ordered_map_has_typed_keys_in_their_order_and_a_version_of_its_own(place: Place) -> None:
    def change(store: KeyedStore) -> None:
        for name in ("ada", "bob"):
            store.bind(name)
            store.state(COUNT).update(1)
            for time in (300, -5, 20):
                store.state(BY_TIME).put(time, f"{name} {time}")

    (handle,) = place.write(place.taken(change))
    assert handle.base is not None
    assert handle.base.version == 2
    files = {name.split("/")[1]: chunk for name, chunk in handle.base.files if "/" in name}
    by_time = place.canonical.fetch(files["state=by time".replace(" ", "%20")])
    table = pq.read_table(pa.BufferReader(by_time))
    assert table.schema.field("map_key").type == pa.int64()
    found = [row["map_key"] for row in table.to_pylist() if row["key"] == "ada"]
    assert found == [-5, 20, 300]
    versions = {
        name: read_file(place.canonical.fetch(chunk), name)[0].version for name, chunk in files.items()
    }
    assert versions == {**dict.fromkeys(versions, 1), "state=by%20time": 2}


def test_the_ordered_map_of_version_2_still_loads() -> None:
    header, groups = read_file((GOLDEN / "savepoint-v2.parquet").read_bytes(), "golden")
    assert (header.version, header.state.kind, header.state.fingerprint) == (
        2,
        "ordered_map",
        "ordered_map of long to string (msgspec 1)",
    )
    records = [record for _, members in groups for record in members]
    assert [(record.key, record.sub, record.value) for record in records] == [
        (key_bytes("ada"), key_bytes(time), key_bytes(f"ada {time}")) for time in (-5, 20, 300)
    ]


def test_the_first_version_still_loads() -> None:
    header, groups = read_file((GOLDEN / "savepoint-v1.parquet").read_bytes(), "golden")
    assert (header.operator, header.state.name, header.state.fingerprint) == (
        "totals",
        "pair",
        "value tuple<string, long> (msgspec 1)",
    )
    records = [record for _, members in groups for record in members]
    assert {record.key: record.value for record in records} == {
        key_bytes(name): key_bytes((name, number)) for number, name in enumerate(("ada", "bob", "cyd"))
    }


def test_nothing_written_is_nothing_read(place: Place) -> None:
    (handle,) = place.write(KeyedHandle(ALL, None, ()))
    assert place.entries(handle) == []


def test_a_state_that_only_some_ranges_have_is_written_everywhere(place: Place) -> None:
    def change(store: KeyedStore) -> None:
        store.bind("ada")
        store.state(COUNT).update(1)

    handles = place.write(place.taken(change), parts=4)
    schemas: list[Any] = []
    for handle in handles:
        assert handle.base is not None
        (chunk,) = [chunk for name, chunk in handle.base.files if "state=count" in name]
        schemas.append(pq.read_schema(pa.BufferReader(place.native.fetch(chunk))))
    assert all(schema.equals(schemas[0], check_metadata=True) for schema in schemas)
