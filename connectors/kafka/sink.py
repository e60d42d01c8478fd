"""Kafka sink: writes records to topics.

Guarantee: exactly once for readers of committed records. Every subtask writes an epoch in one transaction, which is
committed after its checkpoint is decided, by its own producer or, after a crash, by another process.

Example:
    >>> KafkaSink("localhost:9092", KafkaRecordSerializationSchema("totals")).delivery
    'exactly-once'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidegate.changelog import RowKinds
from tidegate.clock import SYSTEM_CLOCK
from tidegate.components import OptionsOf
from tidegate.connectors.base.dead_letters import OnError, check_on_error
from tidegate.connectors.kafka.inspection import check_topics, check_transactional_ids
from tidegate.connectors.kafka.options import (
    SINK_DEFAULTS,
    SINK_GUARANTEED,
    KafkaSinkOptions,
    client_settings,
)
from tidegate.connectors.kafka.record_schema import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.transactions import KafkaCommitter
from tidegate.connectors.kafka.writer import PlainWriter, TransactionalWriter
from tidegate.connectors.spi import Delivery, Finding, JobFacts, OnBranch, Sink
from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid, PipelineId
from tidegate.options import altered, filled
from tidegate.twophase.naming import owner_name
from tidegate.twophase.spi import CommitterContext, WriterContext

if TYPE_CHECKING:
    from tidegate.connectors.kafka.sink_builder import KafkaSinkBuilder

__all__ = ["KafkaSink", "PlainKafkaSink"]

TIMEOUT_MS: Final = 900_000
"""Default limit of the transaction timeout, which is the brokers' default."""
_BROKERS_LIMIT: Final = "transaction.max.timeout.ms"


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Topics as a sink, exactly once.

    Args:
        brokers: Where the cluster is, such as `host:9092,other:9092`.
        schema: Converts records to messages.
        options: How to behave.
        properties: More settings of the client, librdkafka's names; shown nowhere, as some are secrets.

    Raises:
        ConfigError: a property would break the guarantee.
    """

    brokers: str
    schema: KafkaRecordSerializationSchema
    options: KafkaSinkOptions = KafkaSinkOptions()
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)

    delivery = "exactly-once"

    def __post_init__(self) -> None:
        self._settings()

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """A sink in the making, as PyFlink's programs build it."""
        from tidegate.connectors.kafka.sink_builder import KafkaSinkBuilder

        return KafkaSinkBuilder()

    @property
    def on_branch(self) -> OnBranch:
        """What happens to records committed after the checkpoint a branch goes back to."""
        return self.options.on_branch

    @property
    def takes(self) -> RowKinds:
        """All changes where the schema writes them; otherwise those of rows, which are messages like others."""
        return "any" if self.schema.takes_changes else "rows"

    def taking_over(self) -> KafkaSink:
        """The same sink, which uses its prefix even though another pipeline claimed it."""
        return replace(self, options=altered(self.options, take_over=True))

    def with_options(self, options_of: OptionsOf) -> KafkaSink:
        """The same sink, with settings for the options that the program leaves open."""
        options = filled(self.options, options_of("connector.kafka.sink"))
        return replace(self, schema=self.schema.with_options(options_of), options=options)

    def open_writer(self, context: WriterContext) -> TransactionalWriter:
        """Writes transactions.

        Raises:
            ConfigError: the topic does not exist, or transactions would run out before they can be committed.
        """
        settings = self._settings()
        brokers = _ask(settings, self.schema.one_topic, brief=context.pool_index is not None)
        settings["transaction.timeout.ms"] = self._timeout_ms(brokers.limit_ms, context.exposed_ms)
        prefix = self._prefix(context.pipeline, context.uid)
        return TransactionalWriter(settings, brokers.cluster, self.schema, prefix, self.options, context)

    def open_committer(self, context: CommitterContext) -> KafkaCommitter:
        """Commits them."""
        prefix = self._prefix(context.pipeline, context.uid)
        take_over = self.options.take_over and not context.running
        return KafkaCommitter(self._settings(), prefix, self.schema.one_topic, take_over, context)

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Whether the brokers answer and accept the client, and topics and transactional ids may be written."""
        topics = filter(None, [self.schema.one_topic, self.options.dead_letters])
        yield from check_topics(self._settings(), topics, "WRITE")
        yield check_transactional_ids(self._settings(), self._prefix(job.pipeline, job.uid))

    def _prefix(self, pipeline: PipelineId, uid: OperatorUid) -> str:
        return self.options.prefix or owner_name(pipeline, uid)

    def _timeout_ms(self, limit: int, exposed_ms: int | None) -> int:
        """How long a transaction may take: as said, or as long as the brokers allow."""
        asked = self.options.transaction_timeout_ms
        if asked is not None and asked > limit:
            raise ConfigError(
                f"kafka sink: transaction_timeout_ms is {asked}; the brokers allow at most {limit} "
                f"({_BROKERS_LIMIT}); lower it, or raise the limit of the brokers"
            )
        timeout = asked or min(limit, TIMEOUT_MS)
        if exposed_ms is not None and timeout < exposed_ms:
            raise ConfigError(
                f"kafka sink: transactions time out after {timeout} ms, but with two declined checkpoints and the "
                f"pauses of restarts a transaction may wait {exposed_ms} ms for its commit; raise "
                f"transaction_timeout_ms (and {_BROKERS_LIMIT} of the brokers), or shorten the checkpoint interval"
            )
        return timeout

    def _settings(self) -> dict[str, Any]:
        return _settings(self.brokers, self.properties, SINK_GUARANTEED)


@dataclass(frozen=True)
class PlainKafkaSink(Sink):
    """Kafka sink without transactions: records are visible at once; after a failure some of them are written twice.

    Args:
        brokers: Where the cluster is.
        schema: Converts records to messages.
        delivery: `at-least-once` waits for all deliveries before a checkpoint, `none` never waits.
        properties: More settings of the client; shown nowhere.
        on_error: `fail` at a record that cannot be made a message, `skip` it, or write it as a dead letter.
        dead_letters: The topic for those.

    Raises:
        ConfigError: a property would break the guarantee.
    """

    brokers: str
    schema: KafkaRecordSerializationSchema
    delivery: Delivery = "at-least-once"
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    on_error: OnError = "fail"
    dead_letters: str | None = None

    def __post_init__(self) -> None:
        check_on_error("plain kafka sink", self.on_error, self.dead_letters)
        if self.delivery not in ("at-least-once", "none"):
            raise ConfigError(
                f"plain kafka sink delivery is {self.delivery!r}; expected 'at-least-once' or 'none'; for exactly "
                "once use KafkaSink"
            )
        self._settings()

    @property
    def takes(self) -> RowKinds:
        """All changes where the schema writes them; otherwise those of rows, which are messages like others."""
        return "any" if self.schema.takes_changes else "rows"

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Whether the brokers answer and accept the client, and the topics may be written."""
        topics = filter(None, [self.schema.one_topic, self.dead_letters])
        yield from check_topics(self._settings(), topics, "WRITE")

    def with_options(self, options_of: OptionsOf) -> PlainKafkaSink:
        """The same sink, with settings for its schema; those of `connector.kafka.sink` are of transactions."""
        return replace(self, schema=self.schema.with_options(options_of))

    def open_writer(self, context: WriterContext) -> PlainWriter:
        """Writes at once."""
        policy = (self.on_error, self.dead_letters)
        waits = self.delivery == "at-least-once"
        return PlainWriter(self._settings(), self.schema, policy, context, waits=waits)

    def _settings(self) -> dict[str, Any]:
        guaranteed = SINK_GUARANTEED if self.delivery == "at-least-once" else {}
        return _settings(self.brokers, self.properties, guaranteed)


class _Brokers(NamedTuple):
    """What the brokers said about themselves when they were asked about a topic."""

    asked_ms: int
    cluster: str
    limit_ms: int
    """The maximum duration of a transaction."""


_known_brokers: Final[dict[tuple[str, str | None], _Brokers]] = {}
"""Broker settings by address and topic."""
_HOLDS_MS: Final = 60_000


def _ask(settings: Mapping[str, Any], topic: str | None, *, brief: bool) -> _Brokers:
    """Broker settings for a writer; queried once a minute by writers that live for an epoch.

    Raises:
        ConfigError: the topic does not exist.
    """
    from tidegate.connectors.kafka._client import Cluster

    place, now = (settings["bootstrap.servers"], topic), SYSTEM_CLOCK.now_ms()
    known = _known_brokers.get(place)
    if brief and known is not None and 0 <= now - known.asked_ms < _HOLDS_MS:
        return known
    cluster = Cluster(settings)
    if topic is not None and not cluster.topics([topic]):
        raise ConfigError(
            f"kafka sink: topic {topic!r} does not exist; create it, or check its name and the permission to "
            "describe it"
        )
    said = cluster.broker_setting(_BROKERS_LIMIT)
    found = _known_brokers[place] = _Brokers(now, cluster.id, TIMEOUT_MS if said is None else int(said))
    return found


def _settings(brokers: str, properties: Mapping[str, Any], guaranteed: Any) -> dict[str, Any]:
    if not brokers:
        raise ConfigError("kafka sink has no brokers; expected their addresses, such as 'localhost:9092'")
    return client_settings(brokers, properties, defaults=SINK_DEFAULTS, guaranteed=guaranteed)
