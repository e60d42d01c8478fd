"""Kafka source: reads topics.

Guarantee: replayable, so exactly once in the pipeline; order is kept within a partition. Bounded if it is told
where to stop. Only committed records are read. A restart continues at the offsets of the checkpoint, never at the
group's; the group is told how far the pipeline is, for those who watch it.

Example:
    >>> source = KafkaSource("localhost:9092", topics=("orders",), deserializer=RawValues())
    >>> source.bounded, source.produced_type.kind
    (False, <Kind.OPTIONAL: 'optional'>)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tidegate.changelog import ChangelogMode
from tidegate.clock import SYSTEM_CLOCK
from tidegate.components import OptionsOf, with_options
from tidegate.connectors.base import all_splits
from tidegate.connectors.base.dead_letters import check_on_error
from tidegate.connectors.kafka._wire import Wire
from tidegate.connectors.kafka.enumerator import KafkaEnumerator, Plan
from tidegate.connectors.kafka.inspection import check_topics
from tidegate.connectors.kafka.offsets import KafkaOffsetsInitializer
from tidegate.connectors.kafka.options import (
    SOURCE_BRIEF,
    SOURCE_DEFAULTS,
    SOURCE_GUARANTEED,
    KafkaSourceOptions,
    client_settings,
)
from tidegate.connectors.kafka.reader import KafkaReader
from tidegate.connectors.kafka.serde import ChangeValues, KafkaDeserializer, RawValues
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import (
    EnumeratorContext,
    Extent,
    Finding,
    JobFacts,
    Part,
    ReaderContext,
    Remaining,
    Sink,
    Source,
)
from tidegate.errors import ConfigError
from tidegate.options import filled
from tidegate.types import TypeInformation

if TYPE_CHECKING:
    from tidegate.connectors.kafka.source_builder import KafkaSourceBuilder

__all__ = ["KafkaSource"]


@dataclass(frozen=True)
class KafkaSource(Source[KafkaSplit]):
    """Topics as a source; say which by `topics`, by `pattern`, or by `partitions`.

    Args:
        brokers: Where the cluster is, such as `host:9092,other:9092`.
        topics: Names.
        pattern: A regular expression that whole names match.
        partitions: Single partitions.
        deserializer: Converts messages to records.
        start: Where to begin, unless a checkpoint says so.
        stop: Where to end, as it is when the source starts.
        group: Whom to tell how far the pipeline is.
        properties: More settings of the client, librdkafka's names; shown nowhere, as some are secrets.
        options: How to behave.
        dead_letters: Where what cannot be read goes, if `on_error` says so; such as a `KafkaSink` with the schema
            `KafkaRecordSerializationSchema.dead_letters(topic)`.
        bounded: Whether the source counts as one that ends; by default if it has a `stop`.

    Raises:
        ConfigError: what to read is not said once, a property would break the guarantee, or there are dead letters and
            no place for them.
    """

    brokers: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: frozenset[PartitionId] = frozenset()
    deserializer: KafkaDeserializer = field(default_factory=RawValues)
    start: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stop: KafkaOffsetsInitializer | None = None
    group: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: KafkaSourceOptions = KafkaSourceOptions()
    dead_letters: Sink | None = None
    bounded: bool = None  # type: ignore[assignment] # filled in below

    split_type = KafkaSplit

    def __post_init__(self) -> None:
        if not self.brokers:
            raise ConfigError(
                "kafka source has no brokers; expected their addresses, such as 'localhost:9092'"
            )
        if sum(map(bool, (self.topics, self.pattern, self.partitions))) != 1:
            raise ConfigError(
                "kafka source: set exactly one of topics, pattern and partitions; got topics "
                f"{list(self.topics)}, pattern {self.pattern!r}, {len(self.partitions)} partitions"
            )
        check_on_error("kafka source", self.options.on_error, self.dead_letters)
        if self.bounded is None:
            object.__setattr__(self, "bounded", self.stop is not None)
        self._settings()

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """A source in the making, as PyFlink's programs build it."""
        from tidegate.connectors.kafka.source_builder import KafkaSourceBuilder

        return KafkaSourceBuilder()

    @property
    def produced_type(self) -> TypeInformation | None:
        """What the deserializer makes."""
        return self.deserializer.produced_type

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Insertions, unless the deserializer reads changes."""
        deserializer = self.deserializer
        return (
            deserializer.changelog_mode
            if isinstance(deserializer, ChangeValues)
            else ChangelogMode.insert_only()
        )

    def with_options(self, options_of: OptionsOf) -> KafkaSource:
        """The same source, with settings for the options that the program leaves open."""
        return replace(
            self,
            deserializer=with_options(self.deserializer, options_of),
            options=filled(self.options, options_of("connector.kafka.source")),
            dead_letters=with_options(self.dead_letters, options_of),
        )

    def open_enumerator(
        self, context: EnumeratorContext[KafkaSplit], restored: bytes | None
    ) -> KafkaEnumerator:
        """Finds and deals partitions."""
        plan = Plan(
            self.topics,
            self.pattern,
            self.partitions,
            self.group,
            self.start,
            self.stop,
            self.options.on_topic_change,
            self.options.discovery_interval_ms,
        )

        def connect() -> Any:
            from tidegate.connectors.kafka._client import Cluster

            return Cluster(self._settings())

        return KafkaEnumerator(context, plan, connect, restored)

    def open_reader(self, context: ReaderContext) -> KafkaReader:
        """Reads partitions."""
        from tidegate.connectors.kafka._client import PartitionConsumer

        ahead = SOURCE_BRIEF if context.brief else {}
        consumer = PartitionConsumer({**ahead, **self._settings()})
        return KafkaReader(consumer, self.deserializer, self.options, self.group, context)

    def bound(self, split: KafkaSplit, records: int) -> tuple[KafkaSplit, KafkaSplit | None]:
        """The next `records` offsets of a partition, some of which may hold no record, and the rest."""
        end = split.at + records
        if split.stop is not None and end >= split.stop:
            return split, None
        return msgspec.structs.replace(split, stop=end), msgspec.structs.replace(split, at=end)

    def backlog(self, splits: Sequence[KafkaSplit]) -> list[int]:
        """Offsets between a partition's position and its end for this kind of reader."""
        from tidegate.connectors.kafka._client import Cluster

        if not splits:
            return []
        ends = Cluster(self._settings()).offsets([split.place for split in splits], "latest")
        return [max(0, ends[split.place] - split.at) for split in splits]

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Whether the brokers answer and accept the client, and the topics may be read."""
        topics = self.topics or {place[0] for place in self.partitions}
        yield from check_topics(self._settings(), topics, "READ")

    def extent(self, remaining: Remaining | None = None) -> Extent:
        """The committed records that are there now; transactions that are open on the topics are named.

        Raises:
            ConfigError: a topic does not exist, a stop is after its end, or there is no stop.
            UnavailableError: no broker answers.
        """
        from tidegate.connectors.kafka._client import Cluster
        from tidegate.connectors.kafka.audited import extent_of

        if self.stop is None:
            raise ConfigError("a kafka source without a stop is unbounded; expected a bounded one")
        splits = all_splits(self)
        ends = Cluster(self._settings()).offsets([split.place for split in splits], "latest")
        wire = Wire(self._settings(), SYSTEM_CLOCK)
        try:
            hidden = [str(each) for each in wire.open_on({split.topic for split in splits})]
        finally:
            wire.close()
        return extent_of(splits, ends, remaining, hidden)

    def only(self, part: Part, position: int) -> KafkaSplit:
        """The record at an offset."""
        split = cast("KafkaSplit", part.split)
        return KafkaSplit.of(*split.place, split.topic_id, at=position, stop=position + 1)

    def _settings(self) -> dict[str, Any]:
        group = {} if self.group is None else {"group.id": self.group}
        return group | client_settings(
            self.brokers, self.properties, defaults=SOURCE_DEFAULTS, guaranteed=SOURCE_GUARANTEED
        )
