"""How messages become batches, against a client in memory; the real one is in the tests of services."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.connectors.formats import ByteArraySchema, SimpleStringSchema
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaDeserializer,
    KafkaRecord,
    KafkaRecords,
    KafkaSource,
    KafkaSourceOptions,
    RawValues,
    StringValues,
    _client,
)
from tidegate.connectors.kafka.reader import KafkaReader
from tidegate.connectors.kafka.serde import SchemaValues
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import Finished, NotYet, ReaderContext, Unreadable
from tidegate.elements import Batch, Idle, Origin
from tidegate.errors import RecordError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, PipelineId, SplitId, Subtask
from tidegate.types import Types


@dataclass(frozen=True)
class Fake:
    """A message."""

    at: int
    value_: bytes | None = b"1"
    partition_: int = 0
    key_: bytes | None = None
    headers_: list[tuple[str, bytes | None]] | None = None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_000 + self.at)

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.headers_

    def error(self) -> None:
        return None


@dataclass
class Client:
    """Hands out what it is given."""

    waiting: list[Fake] = field(default_factory=list)
    positions: dict[PartitionId, int] = field(default_factory=dict)
    paused: set[PartitionId] = field(default_factory=set)
    committed: list[Mapping[PartitionId, int]] = field(default_factory=list)

    def add(self, positions: Mapping[PartitionId, int]) -> None:
        self.positions |= positions

    def remove(self, place: PartitionId) -> None:
        del self.positions[place]

    def pause(self, places: Collection[PartitionId]) -> None:
        self.paused |= set(places)

    def resume(self, places: Collection[PartitionId]) -> None:
        self.paused -= set(places)

    def take(self, limit: int) -> list[Fake]:
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    def commit(self, positions: Mapping[PartitionId, int]) -> None:
        self.committed.append(positions)

    def end_of(self, place: PartitionId) -> int:
        return 100

    def close(self) -> None:
        self.positions.clear()


def reading(
    client: Client,
    deserializer: KafkaDeserializer | None = None,
    group: str | None = "billing",
    stop: int | None = None,
    splits: list[KafkaSplit] | None = None,
    **options: Any,
) -> KafkaReader:
    """A reader of partitions 0 and 1, or of other splits."""
    as_client: Any = client
    context = ReaderContext(
        OperatorUid("source"), Subtask("source", 0), 1, ManualClock(50), pipeline=PipelineId("billing")
    )
    reader = KafkaReader(
        as_client, deserializer or RawValues(), KafkaSourceOptions(**options), group, context
    )
    both = [KafkaSplit.of("orders", n, "id", at=0, stop=stop) for n in (0, 1)]
    reader.add_splits(both if splits is None else splits)
    return reader


def polled(reader: KafkaReader, limit: int = 100) -> Batch:
    found = reader.poll(limit)
    assert isinstance(found, Batch)
    return found


def positions(reader: KafkaReader, checkpoint: int = 1) -> dict[str, int]:
    return {split.id: split.at for split in reader.snapshot(CheckpointId(checkpoint))}


def test_a_batch_is_of_one_partition_with_offsets_and_timestamps() -> None:
    client = Client([Fake(4, b"a"), Fake(7, b"b"), Fake(0, b"c", 1)])
    reader = reading(client)
    first, second = polled(reader), polled(reader)

    assert (first.values, first.timestamps) == ([b"a", b"b"], [1_004, 1_007])
    assert first.origin is not None
    assert (first.origin.split, list(first.origin.positions)) == ("orders:0", [4, 7])
    assert second.values == [b"c"]
    assert positions(reader) == {"orders:0": 8, "orders:1": 1}


@pytest.mark.spec("003/SRC-05", "004/EOS-013")
def test_the_position_is_behind_what_was_polled_however_much_was_fetched() -> None:
    reader = reading(Client([Fake(n) for n in range(10)]))
    polled(reader, 4)
    assert positions(reader) == {"orders:0": 4, "orders:1": 0}


def test_a_batch_is_small_enough_to_stay_in_a_cache_however_large_it_may_be() -> None:
    reader = reading(Client([Fake(n) for n in range(3_000)]))
    assert [len(polled(reader, 16_384)) for _ in range(3)] == [1_024, 1_024, 952]


@pytest.mark.spec("003/SRC-04", "003/SRC-06")
def test_a_split_is_a_partition_or_the_offsets_of_a_part_of_it_and_says_all_it_takes_to_read_it() -> None:
    whole = KafkaSplit.of("orders", 0, "id", at=100)
    source = KafkaSource("b:1", ("orders",))
    first, rest = source.bound(whole, 101)
    assert rest is not None
    second, _ = source.bound(rest, 100)

    assert (whole.id, whole.stop) == ("orders:0", None)
    for part, offsets in ((first, range(100, 201)), (second, range(201, 301))):
        client = Client([Fake(offset) for offset in range(offsets.start, 400)])
        reader = reading(client, KafkaRecords(), splits=[copied(part)])
        assert client.positions == {PartitionId("orders", 0): offsets.start}
        assert [record.offset for record in polled(reader, 1_000).values] == list(offsets)
        assert positions(reader) == {}


def copied(split: KafkaSplit) -> KafkaSplit:
    """A split as a reader in another process gets it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(split), type=KafkaSplit)


@pytest.mark.spec("003/SRC-12")
def test_bytes_become_records_in_the_reader() -> None:
    client = Client([Fake(0, b'{"user":"ada"}'), Fake(1, b'{"user":"bob"}')])

    assert polled(reading(client, JsonValues())).values == [{"user": "ada"}, {"user": "bob"}]


def test_timestamps_are_left_out_where_nobody_wants_them() -> None:
    assert polled(reading(Client([Fake(0)]), timestamps=False)).timestamps is None


def test_a_reader_without_messages_is_asked_less_and_less_often() -> None:
    client = Client()
    reader = reading(client)
    pauses = [
        found.after_ms for _ in range(9) if isinstance(found := reader.poll(1), NotYet) and found.after_ms
    ]
    assert pauses == [1, 1, 2, 3, 5, 8, 10, 10, 10]
    client.waiting.append(Fake(0))
    polled(reader)
    assert reader.poll(1) == NotYet(1)


def test_a_reader_without_partitions_holds_time_up_for_nobody() -> None:
    client = Client()
    as_client: Any = client
    context = ReaderContext(OperatorUid("source"), Subtask("source", 0), 1, ManualClock(50))
    reader = KafkaReader(as_client, RawValues(), KafkaSourceOptions(), None, context)
    assert [reader.poll(1), reader.poll(1)] == [Idle(True), NotYet()]
    reader.add_splits([KafkaSplit.of("orders", 0, "id", at=0)])
    assert reader.poll(1) == Idle(False)


def test_a_reader_finishes_when_its_partitions_are_read_and_no_more_are_promised() -> None:
    client = Client([Fake(0), Fake(1), Fake(2), Fake(0, partition_=1), Fake(5, partition_=1)])
    reader = reading(client, stop=2)
    assert [len(polled(reader)), len(polled(reader))] == [2, 1]
    assert reader.snapshot(CheckpointId(1)) == []
    assert reader.poll(1) == Idle(True)
    reader.no_more_splits()
    assert isinstance(reader.poll(1), Finished)
    assert client.positions == {}


def test_paused_partitions_wait_also_with_what_was_fetched_of_them() -> None:
    client = Client([Fake(0, b"a"), Fake(0, b"b", 1), Fake(1, b"c")])
    reader = reading(client)
    reader.pause([SplitId("orders:0")])
    assert client.paused == {PartitionId("orders", 0)}
    assert polled(reader).values == [b"b"]
    assert isinstance(reader.poll(10), NotYet)
    reader.pause([])
    assert client.paused == set()
    assert [polled(reader).values, polled(reader).values] == [[b"a"], [b"c"]]


@pytest.mark.spec("004/EOS-016")
def test_the_group_hears_of_settled_checkpoints_only_and_of_the_newest_positions_then() -> None:
    client = Client([Fake(n) for n in range(6)])
    reader = reading(client)
    for checkpoint in (1, 2, 3):
        polled(reader, 2)
        reader.snapshot(CheckpointId(checkpoint))
    assert client.committed == []
    reader.settled(CheckpointId(2))
    assert client.committed == [{PartitionId("orders", 0): 4, PartitionId("orders", 1): 0}]
    reader.settled(CheckpointId(1))
    assert len(client.committed) == 1


@pytest.mark.parametrize(
    ("group", "commits"), [(None, True), ("billing", False)], ids=["no group", "not wanted"]
)
def test_nobody_is_told_where_nobody_is_to_be_told(group: str | None, commits: bool) -> None:
    client = Client([Fake(0)])
    reader = reading(client, group=group, commit_offsets=commits)
    polled(reader)
    reader.snapshot(CheckpointId(1))
    reader.settled(CheckpointId(1))
    assert client.committed == []


def test_the_lag_is_what_lies_between_here_and_the_ends() -> None:
    reader = reading(Client([Fake(n) for n in range(10)]))
    polled(reader)
    assert reader.lag() == (100 - 10) + 100


def test_an_unreadable_message_is_named_and_holds_its_place() -> None:
    reader = reading(Client([Fake(3, b"1"), Fake(4, b"\xff\xfe"), Fake(5, b"3")]), StringValues())
    with pytest.raises(
        RecordError,
        match=r"^kafka topic 'orders' partition 0 offset 4 cannot be read \(UnicodeDecodeError: .*got b'\\xff\\xfe'; "
        r"correct the deserializer, or set on_error to 'skip' or 'dead_letter'$",
    ):
        reader.poll(10)
    assert positions(reader)["orders:0"] == 0


def test_unreadable_messages_are_skipped_and_counted_where_the_program_says_so() -> None:
    client = Client([Fake(3, b"1"), Fake(4, b"\xff"), Fake(5, b"3"), Fake(6, b"\xff", 1)])
    reader = reading(client, StringValues(), on_error="skip")
    batch = polled(reader)
    assert isinstance(reader.poll(10), NotYet)

    assert batch.values == ["1", "3"]
    assert batch.origin is not None
    assert list(batch.origin.positions) == [3, 5]
    assert reader.skipped == 2
    assert positions(reader) == {"orders:0": 6, "orders:1": 7}


def test_unreadable_messages_become_dead_letters_beside_the_others_where_the_program_says_so() -> None:
    headers: list[tuple[str, bytes | None]] = [("trace", b"7")]
    client = Client(
        [
            Fake(3, b"1"),
            Fake(4, b"\xff", 0, b"ada", headers),
            Fake(5, b"3"),
            Fake(6, None, 1),
            Fake(7, b"4", 1),
        ]
    )
    reader = reading(client, StringValues(), on_error="dead_letter")
    first, second = reader.poll(3), reader.poll(1)
    assert isinstance(first, Unreadable)
    assert isinstance(second, Unreadable)
    assert first.batch is not None
    assert (first.batch.values, first.batch.timestamps) == (["1", "3"], [1_003, 1_005])
    (letter,) = first.letters.values
    assert (letter.value, letter.key, letter.headers) == (b"\xff", b"ada", (("trace", b"7"),))
    assert letter.error.startswith("UnicodeDecodeError: 'utf-8' codec")
    assert (letter.pipeline, letter.operator) == ("billing", "source")
    assert dict(letter.place) == {"topic": "orders", "partition": "0", "offset": "4", "timestamp": "1004"}
    assert (first.letters.timestamps, first.letters.origin) == (
        [1_004],
        Origin(SplitId("orders:0"), range(4, 5)),
    )
    assert (second.batch, second.letters.values[0].value) == (None, None)
    assert positions(reader) == {"orders:0": 6, "orders:1": 7}
    assert polled(reader).values == ["4"]
    assert (reader.letters, reader.skipped) == (2, 0)


class NeedsAService(KafkaDeserializer):
    def values(self, messages: Any) -> list[Any]:
        raise UnavailableError("the registry is away")


@pytest.mark.parametrize("on_error", ["fail", "skip", "dead_letter"])
def test_what_a_deserializer_needs_being_away_is_no_fault_of_a_message(on_error: str) -> None:
    reader = reading(Client([Fake(0)]), NeedsAService(), on_error=on_error)
    with pytest.raises(UnavailableError, match=r"^the registry is away$"):
        reader.poll(10)
    assert positions(reader)["orders:0"] == 0


def test_a_tombstone_is_named_where_a_value_is_needed() -> None:
    with pytest.raises(
        RecordError, match=r"partition 0 offset 0 is a tombstone, which the deserializer does not"
    ):
        reading(Client([Fake(0, None)]), StringValues()).poll(10)


@pytest.mark.parametrize(
    ("deserializer", "value", "record"),
    [
        (RawValues(), b"x", b"x"),
        (RawValues(), None, None),
        (StringValues(), "é".encode(), "é"),
        (JsonValues(), b'{"a":[1]}', {"a": [1]}),
        (JsonValues(dict[str, int] | None), None, None),
        (SchemaValues(SimpleStringSchema()), b"x", "x"),
        (SchemaValues(ByteArraySchema()), b"x", b"x"),
    ],
    ids=["raw", "raw tombstone", "text", "json", "json tombstone", "schema of text", "schema of bytes"],
)
def test_deserializers_survive_pickling(
    deserializer: KafkaDeserializer, value: bytes | None, record: Any
) -> None:
    copy = cloudpickle.loads(cloudpickle.dumps(deserializer))
    assert copy.values([Fake(0, value)]) == [record]
    assert copy.produced_type == deserializer.produced_type


def test_json_is_checked_against_its_type() -> None:
    reader = reading(Client([Fake(0, b'{"a":"b"}')]), JsonValues(dict[str, int]))
    with pytest.raises(RecordError, match=r"offset 0 cannot be read .*Expected `int`, got `str`"):
        reader.poll(1)


def test_a_whole_record_has_everything() -> None:
    message = Fake(5, b"v", 1, b"k", [("trace", b"1"), ("trace", None)])
    expected = KafkaRecord("orders", 1, 5, 1_005, b"k", b"v", (("trace", b"1"), ("trace", None)))
    assert polled(reading(Client([message]), KafkaRecords())).values == [expected]
    assert KafkaRecords().produced_type == Types.of(KafkaRecord)


@given(runs=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), max_size=12), limit=st.integers(1, 7))
def test_whatever_the_runs_every_record_comes_once_and_in_order(
    runs: list[tuple[int, int]], limit: int
) -> None:
    sent: list[Fake] = []
    ends = [0, 0]
    for partition, length in runs:
        sent += [Fake(ends[partition] + n, None, partition) for n in range(length)]
        ends[partition] += length
    reader = reading(Client(list(sent)), KafkaRecords())
    seen: list[KafkaRecord] = []
    for _ in range(3 * len(sent) + 3):
        found = reader.poll(limit)
        if isinstance(found, Batch):
            assert len(found) <= limit
            seen += found.values
        assert positions(reader) == {
            f"orders:{n}": sum(record.partition == n for record in seen) for n in (0, 1)
        }
    for n in (0, 1):
        assert [record.offset for record in seen if record.partition == n] == list(range(ends[n]))


def test_a_reader_of_an_epoch_fetches_less_ahead_unless_the_program_says_how_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead: list[object] = []

    def opened(settings: dict[str, object]) -> None:
        ahead.append(settings.get("queued.min.messages"))

    monkeypatch.setattr(_client, "PartitionConsumer", opened)
    said = {"queued.min.messages": 7}
    for brief, properties in ((False, {}), (True, {}), (True, said)):
        context = ReaderContext(OperatorUid("source"), Subtask("source", 0), 1, SYSTEM_CLOCK, brief=brief)
        KafkaSource("nowhere:1", ("orders",), properties=properties).open_reader(context)

    assert ahead == [None, 10_000, 7]
