"""Reader of the Kafka source: polls partitions without blocking.

The client delivers messages in runs of one partition; each run becomes a batch or several. The position of a split is
the offset after the last record that was polled, regardless of prefetched records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from tidegate.connectors.base.idleness import Idleness
from tidegate.connectors.kafka.letters import letter_of_message
from tidegate.connectors.kafka.options import KafkaSourceOptions
from tidegate.connectors.kafka.serde import ChangeValues, KafkaDeserializer, Message
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import Finished, NotYet, Poll, ReaderContext, SourceReader, Unreadable
from tidegate.elements import Batch, Origin, RowKind
from tidegate.errors import ConfigError, MissingExtraError, RecordError, UnavailableError
from tidegate.ids import CheckpointId, SplitId

if TYPE_CHECKING:
    from tidegate.connectors.kafka._client import PartitionConsumer

__all__ = ["KafkaReader"]

_PAUSES_MS: Final = (1, 1, 2, 3, 5, 8, 10)
"""How long to leave the client alone after as many fruitless polls."""

_BATCH: Final = 1_024
"""Records that are handed out at once: decoded, more of them would not stay in the processor's cache for all steps of a chain."""

_SHOWN: Final = 60


class KafkaReader(SourceReader[KafkaSplit]):
    """Reads the partitions of one subtask.

    Args:
        consumer: The client; closed with the reader.
        deserializer: Converts messages to records.
        options: How to behave.
        group: The consumer group whose offsets are committed; None for none.
        context: Who the reader is.
    """

    def __init__(
        self,
        consumer: PartitionConsumer,
        deserializer: KafkaDeserializer,
        options: KafkaSourceOptions,
        group: str | None,
        context: ReaderContext,
    ) -> None:
        self._consumer = consumer
        self._deserializer = deserializer
        self._options = options
        self._commits = group is not None and options.commit_offsets
        self._who = (context.pipeline, context.uid)
        self._splits: dict[PartitionId, KafkaSplit] = {}
        self._topics: set[str] = set()
        """All topics it was ever told to read."""
        self._positions: dict[PartitionId, int] = {}
        self._ends: dict[PartitionId, int] = {}
        self._fetched: deque[tuple[PartitionId, list[Message]]] = deque()
        self._paused: frozenset[PartitionId] = frozenset()
        self._noted: dict[CheckpointId, Mapping[PartitionId, int]] = {}
        self._idleness = Idleness()
        self._fruitless = 0
        self.skipped = 0
        """Records left out because they could not be read."""
        self.letters = 0
        """Records handed on as dead letters for the same reason."""
        if context.program is not None:
            metrics = context.program.get_metrics_group()
            metrics.gauge("pendingRecords", self.lag)
            metrics.gauge("skippedRecords", lambda: self.skipped)
            metrics.gauge("deadLetters", lambda: self.letters)

    def add_splits(self, splits: Sequence[KafkaSplit]) -> None:
        """Take partitions."""
        new = {split.place: split for split in splits if not split.done}
        self._splits |= new
        self._topics |= {place.topic for place in new}
        positions = {place: split.at for place, split in new.items()}
        self._positions |= positions
        if positions:
            self._consumer.add(positions)

    def no_more_splits(self) -> None:
        """Finish when the assigned partitions are read to their stops."""
        self._idleness.complete = True

    def poll(self, limit: int) -> Poll:
        """The next records of some partition.

        Raises:
            ConfigError: reading is not allowed, or the position is gone.
            RecordError: a message cannot be read and `on_error` is `fail`.
            UnavailableError: a topic is gone, the client failed for good, or what the deserializer needs is away.
        """
        if not self._splits:
            return self._idleness.poll()
        if (ended := self._idleness.ended()) is not None:
            return ended
        limit = min(limit, _BATCH)
        batch = self._next_batch(limit)
        if batch is None:
            self._fetch(limit)
            batch = self._next_batch(limit)
        self._drop_read_splits()
        if batch is not None:
            self._fruitless = 0
            return batch
        if not self._splits and self._idleness.complete:
            return Finished()
        self._fruitless = min(self._fruitless + 1, len(_PAUSES_MS))
        return NotYet(_PAUSES_MS[self._fruitless - 1])

    def unfinished_splits(self) -> list[SplitId]:
        """The partitions that are not read to their stops."""
        return [split.id for split in self._splits.values()]

    def pause(self, splits: Collection[SplitId]) -> None:
        """Leave these out, and let the client fetch no more of them."""
        paused = frozenset(place for place, split in self._splits.items() if split.id in splits)
        if stop := paused - self._paused:
            self._consumer.pause(stop)
        if go := (self._paused - paused) & self._splits.keys():
            self._consumer.resume(go)
        self._paused = paused

    def snapshot(self, checkpoint: CheckpointId) -> list[KafkaSplit]:
        """The partitions with the offsets to continue from."""
        if self._commits:
            self._noted[checkpoint] = dict(self._positions)
        return [
            KafkaSplit.of(*place, split.topic_id, at=self._positions[place], stop=split.stop)
            for place, split in self._splits.items()
        ]

    def settled(self, checkpoint: CheckpointId) -> None:
        """Tell the group."""
        for earlier in [noted for noted in self._noted if noted < checkpoint]:
            del self._noted[earlier]
        if positions := self._noted.pop(checkpoint, None):
            self._consumer.commit(positions)

    def lag(self) -> int:
        """Records between here and the newest end offsets known to the client."""
        ends = {place: self._consumer.end_of(place) for place in self._splits}
        return sum(max(0, end - self._positions[place]) for place, end in ends.items())

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _fetch(self, limit: int) -> None:
        messages = self._consumer.take(limit)
        if messages and any(map(type(messages[0]).error, messages)):
            messages = [message for message in messages if not self._is_event(message)]
        self._fetched.extend(_runs(messages, one_topic=len(self._topics) == 1))

    def _is_event(self, message: Message) -> bool:
        from tidegate.connectors.kafka._client import is_end

        if message.error() is None:
            return False
        if not is_end(message):
            raise self._consumer.error(message)
        self._ends[PartitionId(message.topic(), message.partition())] = message.offset()
        return True

    def _next_batch(self, limit: int) -> Batch | Unreadable | None:
        for index, (place, messages) in enumerate(self._fetched):
            if place in self._paused:
                continue
            del self._fetched[index]
            if len(messages) > limit:
                self._fetched.insert(index, (place, messages[limit:]))
            batch = self._read(place, messages[:limit]) if place in self._splits else None
            # A run has no records left if all are after the stop, or where every record was skipped.
            return batch if batch is not None else self._next_batch(limit)
        return None

    def _read(self, place: PartitionId, messages: list[Message]) -> Batch | Unreadable | None:
        split = self._splits[place]
        offsets = _offsets(messages)
        if split.stop is not None and offsets[-1] >= split.stop:
            within = bisect_left(offsets, split.stop)
            messages, offsets = messages[:within], offsets[:within]
            self._ends[place] = split.stop
        if not messages:
            return None
        found: Batch | Unreadable | None
        try:
            found = self._decoded(split, messages, offsets)
        except Exception:
            found = self._one_by_one(split, messages)
        self._positions[place] = offsets[-1] + 1
        return found

    def _decoded(self, split: KafkaSplit, messages: list[Message], offsets: Sequence[int]) -> Batch | None:
        deserializer = self._deserializer
        if not isinstance(deserializer, ChangeValues):
            return self._batch(split, messages, offsets, deserializer.values(messages))
        values, kinds, places = deserializer.changes(messages)
        if not values:
            return None
        chosen = [messages[place] for place in places]
        return self._batch(split, chosen, [offsets[place] for place in places], values, kinds)

    def _batch(
        self,
        split: KafkaSplit,
        messages: list[Message],
        offsets: Sequence[int],
        values: list[Any],
        kinds: list[RowKind] | None = None,
    ) -> Batch:
        timestamps = [message.timestamp()[1] for message in messages] if self._options.timestamps else None
        changed = kinds if kinds is not None and any(kinds) else None
        return Batch(values, timestamps, kinds=changed, origin=Origin(split.id, offsets))

    def _one_by_one(self, split: KafkaSplit, messages: list[Message]) -> Batch | Unreadable | None:
        """What can be read of the messages; what cannot is treated as `on_error` says."""
        good: list[Message] = []
        bad: list[tuple[Message, Exception]] = []
        for message in messages:
            try:
                self._deserializer.values([message])
                good.append(message)
            except (ConfigError, MissingExtraError, UnavailableError):
                raise  # no fault of the message
            except Exception as error:
                if self._options.on_error == "fail":
                    raise _unreadable(split.place, message, error) from error
                bad.append((message, error))
        batch = self._decoded(split, good, _offsets(good)) if good else None
        if self._options.on_error == "skip":
            self.skipped += len(bad)
        if self._options.on_error == "skip" or not bad:
            return batch
        self.letters += len(bad)
        letters = [letter_of_message(message, error, *self._who) for message, error in bad]
        came = [message for message, _ in bad]
        return Unreadable(self._batch(split, came, _offsets(came), letters), batch)

    def _drop_read_splits(self) -> None:
        """Release partitions that were read to their stop; a transaction marker at the end of a partition is not a record."""
        waiting = {place for place, _ in self._fetched}
        for place, split in list(self._splits.items()):
            reached = max(self._positions[place], self._ends.get(place, 0))
            if split.stop is not None and reached >= split.stop and place not in waiting:
                self._consumer.remove(place)
                self._positions[place] = split.stop
                del self._splits[place]


def _runs(messages: list[Message], *, one_topic: bool) -> Iterator[tuple[PartitionId, list[Message]]]:
    """Messages by partition, in order."""
    partitions = list(map(type(messages[0]).partition, messages)) if messages else []
    if one_topic and partitions and partitions.count(partitions[0]) == len(partitions):
        yield PartitionId(messages[0].topic(), partitions[0]), messages
        return
    start = 0
    for place, run in groupby([(message.topic(), message.partition()) for message in messages]):
        end = start + sum(1 for _ in run)
        yield PartitionId(*place), messages[start:end]
        start = end


def _offsets(messages: list[Message]) -> Sequence[int]:
    """The offsets of messages of one partition; they rise, so mostly the first and the last one tell all of them."""
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first == len(messages) - 1:
        return range(first, last + 1)
    return [message.offset() for message in messages]


def _unreadable(place: PartitionId, message: Message, error: Exception) -> RecordError:
    value = message.value()
    if value is None:
        what = "is a tombstone, which the deserializer does not support"
    else:
        cut = "..." if len(value) > _SHOWN else ""
        what = f"cannot be read ({type(error).__name__}: {error}); got {value[:_SHOWN]!r}{cut}"
    return RecordError(
        f"kafka topic {place.topic!r} partition {place.partition} offset {message.offset()} {what}; correct the "
        "deserializer, or set on_error to 'skip' or 'dead_letter'"
    )
