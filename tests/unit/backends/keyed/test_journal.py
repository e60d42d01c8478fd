"""What a journal keeps, and for how long."""

from __future__ import annotations

from tests.unit.backends.keyed.conftest import Open
from tidegate.backends.keyed import ListStateDescriptor, ValueStateDescriptor
from tidegate.backends.keyed.journal import Journal, TimersDue, groups_of
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.spi import Entry, Timer
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.elements import RecordOrigin
from tidegate.ids import CheckpointId
from tidegate.types import Types

ONE, TWO, THREE = map(CheckpointId, (1, 2, 3))
LIMIT = 1_000


def addresses(entries: list[Entry]) -> list[bytes]:
    return [at for _, group in groups_of(entries) for at, _ in group]


def test_what_no_decided_checkpoint_holds_is_told_again() -> None:
    journal = Journal()
    journal.append({b"a": b"1"}, None)
    assert addresses(journal.take(ONE, None, LIMIT).entries) == [b"a"]
    journal.append({b"b": b"1"}, None)
    assert addresses(journal.take(TWO, None, LIMIT).entries) == [b"a", b"b"]
    journal.append({b"c": b"1"}, None)
    assert addresses(journal.take(THREE, ONE, LIMIT).entries) == [b"b", b"c"]


def test_beyond_the_limit_declined_checkpoints_leave_the_number_of_their_changes_alone() -> None:
    journal = Journal()
    for number in (1, 2):
        journal.append({b"a": bytes(LIMIT), b"b": b""}, None)
        told = journal.take(CheckpointId(number), None, LIMIT)
    assert told == ([], 4)
    assert journal.kept_bytes == 0
    journal.append({b"c": b"1"}, None)
    assert journal.take(THREE, None, LIMIT) == ([], 5)


def test_a_journal_goes_on_once_a_checkpoint_without_one_is_decided() -> None:
    journal = Journal()
    for number in (1, 2):
        journal.append({b"a": bytes(LIMIT)}, None)
        journal.take(CheckpointId(number), None, LIMIT)
    journal.append({b"b": b"1"}, None)
    told = journal.take(THREE, TWO, LIMIT)
    assert (addresses(told.entries), told.dropped) == ([b"b"], 0)


def test_one_epoch_is_told_however_large_it_is() -> None:
    journal = Journal()
    journal.append({b"a": bytes(10 * LIMIT)}, None)
    assert addresses(journal.take(ONE, None, LIMIT).entries) == [b"a"]


def test_groups_keep_their_order_and_their_causes() -> None:
    journal = Journal()
    record, timers = RecordOrigin("orders", "part-0", 7), TimersDue("event", 1_000)
    journal.append({b"a": b"1"}, record)
    journal.append({b"a": None, b"b": b""}, timers)
    journal.append({b"a": b"2"}, None)

    assert list(groups_of(journal.take(ONE, None, LIMIT).entries)) == [
        (record, [(b"a", b"1")]),
        (timers, [(b"a", None), (b"b", b"")]),
        (None, [(b"a", b"2")]),
    ]


def test_a_store_notes_each_change_though_only_the_last_is_in_its_log(
    open_store: Open, storage: MemoryStorage
) -> None:
    store = open_store(journaled=True)
    count = store.value_state(ValueStateDescriptor("count", Types.LONG()))
    for position in range(3):
        store.bind("ann")
        count.update(position)
        store.event_timers.register(Timer(position, "ann"))
        store.note(RecordOrigin("orders", "part-0", position))
    store.bind("ann")
    store.note(RecordOrigin("orders", "part-0", 3))

    handle = store.snapshot(ONE, None).finish()

    files = StorageFiles(storage.blobs, "run")
    assert handle.journal is not None
    assert handle.journal in handle.chunks
    groups = list(groups_of(read_segment(files, handle.journal).entries))
    noted = [cause.position for cause, group in groups for _ in group if isinstance(cause, RecordOrigin)]
    assert noted == [0, 0, 1, 1, 2, 2]
    assert len(read_segment(files, handle.segments[0]).entries) == 4


def test_a_mutable_value_is_noted_where_it_changed(open_store: Open, storage: MemoryStorage) -> None:
    store = open_store(journaled=True)
    held = store.value_state(ValueStateDescriptor("held", default=[]))
    many = store.state(ListStateDescriptor("many"))
    for position in range(2):
        store.bind("ann")
        held.value().append(position)
        many.add(position)
        store.note(RecordOrigin("orders", "part-0", position))

    journal = store.snapshot(ONE, None).finish().journal

    assert journal is not None
    assert len(list(groups_of(read_segment(StorageFiles(storage.blobs, "run"), journal).entries))) == 2


def test_without_a_journal_nothing_is_noted(open_store: Open) -> None:
    store = open_store()
    store.bind("ann")
    store.value_state(ValueStateDescriptor("count", Types.LONG())).update(1)

    assert store.snapshot(ONE, None).finish().journal is None
