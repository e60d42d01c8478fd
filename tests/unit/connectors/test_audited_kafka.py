"""Topics as one side of an audit: ranges of offsets, and where a checkpoint divides them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidegate.connectors.kafka.audited import audited, extent_of
from tidegate.connectors.kafka.enumerator import Known, _State
from tidegate.connectors.kafka.serde import JsonValues, KafkaRecords, RawValues, StringValues
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import Extent, Part, Remaining
from tidegate.errors import ConfigError, StateFormatError

ENDS = {PartitionId("orders", partition): 100 for partition in range(4)}


def split(partition: int, at: int = 0, stop: int | None = None) -> KafkaSplit:
    return KafkaSplit.of("orders", partition, "AAA", at=at, stop=stop)


def remaining(*left: KafkaSplit, waiting: tuple[KafkaSplit, ...] = (), id: str = "AAA") -> Remaining:
    state = _State({"orders": Known(id, frozenset({0, 1, 2}))}, list(waiting))
    return Remaining(tuple(map(msgspec.msgpack.encode, left)), msgspec.msgpack.encode(state))


def ranges(parts: tuple[Part, ...]) -> dict[str, tuple[int, int]]:
    return {part.name: (part.start, part.end) for part in parts}


def test_without_a_checkpoint_everything_up_to_the_ends_counts() -> None:
    found = extent_of([split(0), split(1, 5, 50), split(2, 100)], ENDS, None, ["a transaction"])

    assert ranges(found.parts) == {"orders:0": (0, 100), "orders:1": (5, 50)}
    assert (found.later, found.hidden) == ((), ("a transaction",))
    assert [(part.split, part.unit) for part in found.parts][1] == (split(1, 5, 50), "offset")


def test_partitions_are_divided_where_a_checkpoint_goes_on() -> None:
    left = remaining(split(0, 70), waiting=(split(1, 0),))

    found = extent_of([split(n) for n in range(4)], ENDS, left, [])

    assert ranges(found.parts) == {"orders:0": (0, 70), "orders:2": (0, 100)}, "2 is read to its end"
    assert ranges(found.later) == {"orders:0": (70, 100), "orders:1": (0, 100), "orders:3": (0, 100)}, (
        "3 is new"
    )


def test_a_range_that_begins_behind_a_checkpoint_is_all_later() -> None:
    found = extent_of([split(0, 80, 90)], ENDS, remaining(split(0, 70)), [])

    assert found == Extent((), (Part(split(0, 80, 90), 80, 90, "orders:0", "offset"),))


def test_offsets_behind_the_end_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^kafka partition orders:0 ends at offset 100; got offsets up to 101$"
    ):
        extent_of([split(0, 0, 101)], ENDS, None, [])


def test_a_checkpoint_of_another_topic_is_refused() -> None:
    other = KafkaSplit.of("refunds", 0, "BBB", at=0)
    with pytest.raises(
        ConfigError, match=r"^topic 'refunds' is not in the checkpoint; its source reads orders$"
    ):
        extent_of([other], {other.place: 1}, remaining(), [])
    with pytest.raises(
        ConfigError, match=r"^topic 'orders' was recreated since the checkpoint; got id AAA; expected CCC$"
    ):
        extent_of([split(0)], ENDS, remaining(id="CCC"), [])
    with pytest.raises(StateFormatError, match="the state of a kafka source cannot be read"):
        extent_of([split(0)], ENDS, Remaining((), b"\x80"), [])


def test_a_topic_is_named_by_its_url(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("# how to be let in\nsecurity.protocol = SSL\n\nssl.key.password=se=cret\n")

    source = audited(f"kafka://a:9092,b:9092/orders?format=json&offsets=0:5-,2:-9&config={config}")

    assert (source.brokers, source.topics) == ("a:9092,b:9092", ())
    assert source.partitions == {PartitionId("orders", 0), PartitionId("orders", 2)}
    assert source.stop is not None
    assert (source.start.given, source.stop.given) == (
        {PartitionId("orders", 0): 5},
        {PartitionId("orders", 2): 9},
    )
    assert source.properties == {"security.protocol": "SSL", "ssl.key.password": "se=cret"}
    assert source.bounded


@pytest.mark.parametrize(
    ("name", "deserializer"),
    [("json", JsonValues), ("text", StringValues), ("bytes", RawValues), ("record", KafkaRecords)],
)
def test_messages_are_read_as_the_url_says(name: str, deserializer: type) -> None:
    assert type(audited(f"kafka://b:9092/orders?format={name}").deserializer) is deserializer
    assert audited("kafka://b:9092/orders").topics == ("orders",)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("kafka://b:9092", r"^'kafka://b:9092' does not name a topic; expected kafka://<brokers>/<topic>$"),
        ("kafka://b/a/b", r"does not name a topic"),
        ("kafka://b/orders?from=1", r"unknown option 'from' in .*; expected format, offsets or config$"),
        ("kafka://b/orders?format=avro", r"has format 'avro'; expected one of json, text, bytes, record$"),
        (
            "kafka://b/orders?offsets=0",
            r"^invalid offsets '0'; expected, for example, 0:100-200, 0:100- or 0:-200$",
        ),
        (
            "kafka://b/orders?config=/none",
            r"^file '/none' with client properties cannot be read: No such file",
        ),
    ],
)
def test_a_url_that_is_not_understood_says_what_is_expected(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        audited(url)
