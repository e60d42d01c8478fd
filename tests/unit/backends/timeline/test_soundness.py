"""Damaged files are named; state that does not fit together is told, also where every file is sound."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.unit.backends.timeline.conftest import ALL, COUNT, MANY, NAMED, Place
from tidegate.backends.keyed import KeyedStore, snapshot
from tidegate.backends.keyed.address import COLLECTIONS, ROWS, address
from tidegate.backends.keyed.list_state import pack_head
from tidegate.backends.keyed.row import pack_slots
from tidegate.backends.keyed.segment import Segment, encode_segment
from tidegate.backends.keyed.table import StateTable
from tidegate.backends.spi import Chunk, Entry, KeyedHandle, StoredChunk, Timer
from tidegate.backends.timeline import conflicts, damage, defects
from tidegate.ids import CheckpointId
from tidegate.keys import key_bytes, key_group

ANN = key_bytes("ann")
GROUP = key_group(ANN, ALL.last)


def fill(store: KeyedStore) -> None:
    for key in ("ann", "bob"):
        store.bind(key)
        store.state(COUNT).update(1)
        store.state(MANY).add_all([f"{number}" for number in range(200)])
        store.state(NAMED).put("x", 1)
        store.processing_timers.register(Timer(5, key))


def second(store: KeyedStore) -> None:
    store.bind("ann")
    store.state(COUNT).update(2)


def test_what_a_store_wrote_is_sound(place: Place) -> None:
    for handle in [*place.taken([fill, fill]), *place.taken_apart([fill])]:
        assert list(damage(handle, place.files)) == []
        assert list(defects(handle, ALL.last, place.context(), 0)) == []


def test_every_damaged_or_missing_file_is_named(place: Place) -> None:
    (handle,) = place.taken_apart([fill])
    names = [chunk.name for chunk in handle.chunks if isinstance(chunk, StoredChunk)]
    for name in names[1:]:
        with place.storage.blobs.open(name) as file:
            data = file.read()
        place.storage.blobs.put(name, data[:-1] + bytes([data[-1] ^ 1]))
    place.storage.blobs.delete(names[:1])

    found = dict(damage(handle, place.files))

    assert found.keys() == set(names)
    assert "does not exist" in found[names[0]]
    assert all("is damaged" in found[name] for name in names[1:])


def test_a_base_without_a_segment_that_describes_it_is_told(place: Place) -> None:
    (handle,) = place.taken_apart([fill])

    (found,) = damage(KeyedHandle(ALL, handle.base, ()), place.files)

    assert found == ("in the metadata", "the base has no log segment that describes its states")


def test_a_base_that_says_other_than_the_log_before_it_is_told(place: Place) -> None:
    (log,) = place.taken([fill])
    (base,) = place.taken_apart([fill])
    (other,) = place.taken_apart([second])
    epoch = log.segments[-1]
    empty = place.files.store(encode_segment(Segment((), [])))

    def behind(handle: KeyedHandle, *segments: Chunk) -> list[str]:
        later = KeyedHandle(ALL, handle.base, (*handle.segments, *segments))
        return list(conflicts(log, later, place.context(), 0))

    assert behind(base, epoch) == []
    assert behind(base, empty) == []
    assert behind(other) == []
    told = behind(other, empty)
    assert "state of key 'ann' differs between a base and the log before it" in told
    assert "state of key 'bob' differs between a base and the log before it" in told


def test_bases_that_were_written_in_the_background_are_what_the_log_before_them_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MIN_LOG_BYTES", 600)
    with ThreadPoolExecutor(1) as uploads:
        store = KeyedStore(place.backend, ALL, ALL.last, [], place.context(), uploads=uploads)
        handles: list[KeyedHandle] = []
        for number in range(1, 41):
            for key in range(number % 5 + 1):
                store.bind(key)
                store.state(COUNT).update(number)
                store.state(MANY).add(f"{number}")
            confirmed = CheckpointId(number - 1) if number > 1 else None
            handles.append(store.snapshot(CheckpointId(number), confirmed).finish())
            uploads.submit(int).result()  # what is being uploaded is there by the next checkpoint
        store.close()

    pairs = list(pairwise(handles))
    assert [what for pair in pairs for what in conflicts(*pair, place.context(), 0)] == []
    compared = [later for earlier, later in pairs if later.base != earlier.base and len(later.segments) > 1]
    assert len(compared) > 2
    assert all(list(defects(handle, ALL.last, place.context(), 0)) == [] for handle in compared)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ((address((GROUP + 1) % 8, ROWS, ANN), pack_slots([b"\1"])), "key 'ann' is stored in key group"),
        (
            (address(GROUP, ROWS, ANN), pack_slots([None, None, b"\1"])),
            "in slot 2, which no log segment describes",
        ),
        (
            (address(GROUP, ROWS, ANN), pack_slots([None, pack_head(2, [])])),
            "state 'many' of key 'ann' has 0 stored parts; expected 2",
        ),
        ((address(GROUP, COLLECTIONS + 1, ANN), b"\x90"), "has 1 stored parts; expected 0"),
        ((b"\0\0\0\0no terminator", b""), "is malformed"),
    ],
    ids=["wrong group", "unknown slot", "lost chunks", "orphan", "no address"],
)
def test_state_that_does_not_fit_together_is_told(place: Place, entry: Entry, said: str) -> None:
    table = StateTable()
    table.add(COUNT)
    table.add(MANY)
    segment = place.files.store(encode_segment(Segment(table.entries, [entry])))
    handle = KeyedHandle(ALL, None, (segment,))

    assert list(damage(handle, place.files)) == []
    (found,) = defects(handle, ALL.last, place.context(), 0)
    assert said in found
