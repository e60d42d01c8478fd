"""Topics as one side of an audit: their content at a moment, the open transactions that hide the rest, and their URLs.

Example:
    >>> source = audited("kafka://localhost:9092/orders?format=json&offsets=0:100-200,3:50-")
    >>> [str(place) for place in sorted(source.partitions)], list(source.start.given.values())
    (['orders:0', 'orders:3'], [100, 50])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tidegate.connectors.kafka.enumerator import remaining_splits
from tidegate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from tidegate.connectors.kafka.serde import (
    JsonValues,
    KafkaDeserializer,
    KafkaRecords,
    RawValues,
    StringValues,
)
from tidegate.connectors.kafka.source import KafkaSource
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import Extent, Part, Remaining
from tidegate.errors import ConfigError

__all__ = ["audited", "extent_of"]

_FORMATS: Final[Mapping[str, Callable[[], KafkaDeserializer]]] = {
    "json": JsonValues,
    "text": StringValues,
    "bytes": RawValues,
    "record": KafkaRecords,
}
_OFFSETS: Final = re.compile(r"(?P<partition>[0-9]+):(?P<start>[0-9]*)-(?P<stop>[0-9]*)")


def audited(url: str) -> KafkaSource:
    """The topic of `kafka://<brokers>/<topic>`.

    A query may say `format` (json, text, bytes or record), `offsets` such as `0:100-200,1:50-`, and `config`, a file with
    `key=value` lines of the client.

    Raises:
        ConfigError: the URL does not say which topic, or its query is wrong.
    """
    parts = urlsplit(url)
    topic = unquote(parts.path.strip("/"))
    if not parts.netloc or not topic or "/" in topic:
        raise ConfigError(f"{url!r} does not name a topic; expected kafka://<brokers>/<topic>")
    asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if unknown := asked.keys() - {"format", "offsets", "config"}:
        raise ConfigError(f"unknown option {min(unknown)!r} in {url!r}; expected format, offsets or config")
    kind = asked.get("format", "bytes")
    if kind not in _FORMATS:
        raise ConfigError(f"{url!r} has format {kind!r}; expected one of {', '.join(_FORMATS)}")
    starts, stops = _offsets(topic, asked["offsets"]) if "offsets" in asked else ({}, {})
    return KafkaSource(
        parts.netloc,
        topics=() if starts else (topic,),
        partitions=frozenset(starts),
        deserializer=_FORMATS[kind](),
        start=_at(starts, KafkaOffsetResetStrategy.EARLIEST),
        stop=_at(stops, KafkaOffsetResetStrategy.LATEST),
        properties=_properties(asked["config"]) if "config" in asked else {},
    )


def extent_of(
    splits: Sequence[KafkaSplit],
    ends: Mapping[PartitionId, int],
    remaining: Remaining | None,
    hidden: Sequence[str],
) -> Extent:
    """Bounded partitions, divided at the offsets of a checkpoint.

    Args:
        splits: From where to where; without a stop up to the end.
        ends: Behind the last record that can be read.
        remaining: What the checkpoint says.
        hidden: What cannot be read yet.

    Raises:
        ConfigError: a stop is after the end, or the checkpoint is of another topic.
    """
    before: list[Part] = []
    later: list[Part] = []
    for split in splits:
        end = ends[split.place]
        stop = end if split.stop is None else split.stop
        if stop > end:
            raise ConfigError(f"kafka partition {split.id} ends at offset {end}; got offsets up to {stop}")
        at = stop if remaining is None else min(max(split.at, _reached(split, stop, remaining)), stop)
        before += _part(split, split.at, at)
        later += _part(split, at, stop)
    return Extent(tuple(before), tuple(later), tuple(hidden))


def _reached(split: KafkaSplit, stop: int, remaining: Remaining) -> int:
    """How far a partition is read."""
    topics, left = remaining_splits(remaining)
    if split.topic not in topics:
        raise ConfigError(
            f"topic {split.topic!r} is not in the checkpoint; its source reads "
            f"{', '.join(sorted(topics)) or 'none'}"
        )
    known = topics[split.topic]
    if known.id != split.topic_id:
        raise ConfigError(
            f"topic {split.topic!r} was recreated since the checkpoint; got id {split.topic_id}; expected "
            f"{known.id}"
        )
    if split.partition not in known.partitions:
        return split.at
    return left[split.place].at if split.place in left else stop


def _part(split: KafkaSplit, start: int, stop: int) -> list[Part]:
    if start >= stop:
        return []
    cut = msgspec.structs.replace(split, at=start, stop=stop)
    return [Part(cut, start, stop, split.id, "offset")]


def _offsets(topic: str, text: str) -> tuple[dict[PartitionId, int | None], dict[PartitionId, int | None]]:
    starts: dict[PartitionId, int | None] = {}
    stops: dict[PartitionId, int | None] = {}
    for each in text.split(","):
        found = _OFFSETS.fullmatch(each)
        if found is None:
            raise ConfigError(f"invalid offsets {each!r}; expected, for example, 0:100-200, 0:100- or 0:-200")
        place = PartitionId(topic, int(found["partition"]))
        starts[place] = int(found["start"]) if found["start"] else None
        stops[place] = int(found["stop"]) if found["stop"] else None
    return starts, stops


def _at(
    places: Mapping[PartitionId, int | None], otherwise: KafkaOffsetResetStrategy
) -> KafkaOffsetsInitializer:
    given = {place: offset for place, offset in places.items() if offset is not None}
    return KafkaOffsetsInitializer("specific", otherwise, given=given)


def _properties(path: str) -> dict[str, Any]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"file {path!r} with client properties cannot be read: {error.strerror}") from error
    kept = (line for line in map(str.strip, lines) if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in kept)}
