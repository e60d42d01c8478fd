"""Kafka client, the connector's only import of confluent-kafka; errors are translated into tidegate's.

Nothing here logs or shows a setting: some of them are secrets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka.offsets import Spec
from tidegate.connectors.kafka.serde import Message
from tidegate.connectors.kafka.split import PartitionId
from tidegate.errors import ConfigError, MissingExtraError, TidegateError, UnavailableError

try:
    from confluent_kafka import (
        Consumer,
        ConsumerGroupTopicPartitions,
        IsolationLevel,
        KafkaError,
        KafkaException,
        Producer,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
except ImportError as missing:
    raise MissingExtraError("kafka support is not installed; run: pip install 'tidegate[kafka]'") from missing

__all__ = [
    "Cluster",
    "PartitionConsumer",
    "Topic",
    "call_client",
    "connect",
    "group_metadata",
    "is_end",
    "is_too_large",
    "marker_offset",
    "new_producer",
    "translate",
    "translated_errors",
]

TIMEOUT_S: Final = 15.0
"""How long a broker may take to answer what is asked once."""

_REACH_S: Final = 0.5
_LAST_POLLS: Final = 20
_LAST_POLL_S: Final = 0.1

T = TypeVar("T")

_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_UNKNOWN_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
_BAD_LOGIN: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
)
_GONE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_NO_BROKER: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
_OVERTAKEN: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
_SENT: Final = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster knows it now; `id` differs from that of an earlier topic of the same name."""

    id: str
    partitions: tuple[int, ...]


class Cluster:
    """Metadata of a cluster: topics, offsets, settings of brokers.

    Raises:
        ConfigError: the client does not take a setting.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._brokers = settings["bootstrap.servers"]
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if settings.get("isolation.level") == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        self._refused: list[TidegateError] = []
        self._id: str | None = None
        own = {"error_cb": self._on_error, "log_level": 0}
        self._client = _made(AdminClient, {**_of_admin(settings), **own}, self._brokers)

    def reach(self) -> None:
        """Check that a broker answers and accepts the client, which would retry forever and report errors only to a callback.

        Raises:
            ConfigError: the broker refused the client.
            UnavailableError: no broker answers.
        """
        deadline = SYSTEM_CLOCK.monotonic() + TIMEOUT_S
        while self._id is None:
            try:
                self._id = str(self._client.list_topics(timeout=_REACH_S).cluster_id)
            except KafkaException as error:
                self._client.poll(0)
                if self._refused:
                    raise self._refused[0] from error
                if SYSTEM_CLOCK.monotonic() > deadline:
                    raise translate(error.args[0], "cluster", self._brokers) from error

    @property
    def id(self) -> str:
        """What the cluster calls itself, whichever of its brokers is asked.

        Raises:
            UnavailableError: no broker answers.
        """
        self.reach()
        return str(self._id)

    def names(self) -> list[str]:
        """All topics the program may see, without Kafka's own.

        Raises:
            UnavailableError: no broker answers.
        """
        listed = self._try("topics", lambda: self._client.list_topics(timeout=TIMEOUT_S))
        return sorted(name for name in listed.topics if not name.startswith("__"))

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of the topics that exist.

        Raises:
            ConfigError: one may not be read.
            UnavailableError: no broker answers.
        """
        found: dict[str, Topic] = {}
        for name, topic in self._described(names).items():
            if isinstance(topic, TidegateError):
                raise topic
            found[name] = Topic(str(topic.topic_id), tuple(sorted(each.id for each in topic.partitions)))
        return found

    def permissions(self, names: Collection[str]) -> dict[str, frozenset[str] | None]:
        """What this user may do with those of the topics that exist: `READ`, `WRITE`; None if the brokers do not tell.

        Raises:
            UnavailableError: no broker answers.
        """
        found: dict[str, frozenset[str] | None] = {}
        for name, topic in self._described(names, include_authorized_operations=True).items():
            if isinstance(topic, ConfigError):
                found[name] = frozenset()
            elif isinstance(topic, TidegateError):
                raise topic
            else:
                told = topic.authorized_operations
                found[name] = None if told is None else frozenset(each.name for each in told)
        return found

    def _described(self, names: Collection[str], **how: Any) -> dict[str, Any]:
        """What the brokers say of each topic that exists, or the error they answer with."""
        if not names:
            return {}
        topics = TopicCollection(sorted(names))
        asked = self._try(
            "topics", lambda: self._client.describe_topics(topics, request_timeout=TIMEOUT_S, **how)
        )
        found: dict[str, Any] = {}
        for name, future in asked.items():
            try:
                found[name] = future.result()
            except KafkaException as error:
                if error.args[0].code() not in _UNKNOWN_TOPIC:
                    found[name] = translate(error.args[0], f"topic {name!r}", self._brokers)
        return found

    def offsets(self, places: Collection[PartitionId], spec: Spec) -> dict[PartitionId, int]:
        """The offset of each partition; by time the end where no record is as new."""
        sent = _SENT[spec] if isinstance(spec, str) else OffsetSpec.for_timestamp(spec)
        asked = self._try(
            "offsets",
            lambda: self._client.list_offsets(
                {TopicPartition(*place): sent for place in places},
                isolation_level=self._isolation,
                request_timeout=TIMEOUT_S,
            ),
        )
        found = {
            PartitionId(each.topic, each.partition): self._result(f"partition {each}", future).offset
            for each, future in asked.items()
        }
        beyond = [place for place, offset in found.items() if offset < 0]
        return found | (self.offsets(beyond, "latest") if beyond else {})

    def committed(self, group: str, places: Collection[PartitionId]) -> dict[PartitionId, int]:
        """Where a group is, for partitions it has been in."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in places])
        asked = self._try(
            "group offsets",
            lambda: self._client.list_consumer_group_offsets([wanted], request_timeout=TIMEOUT_S),
        )
        answer = self._result(f"group {group!r}", asked[group])
        return {PartitionId(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}

    def broker_setting(self, key: str) -> str | None:
        """A setting of the brokers; None if permission is denied."""
        metadata = self._try("brokers", lambda: self._client.list_topics(timeout=TIMEOUT_S))
        broker = ConfigResource(ResourceType.BROKER, str(min(metadata.brokers)))
        try:
            found = self._client.describe_configs([broker], request_timeout=TIMEOUT_S)[broker].result()
        except KafkaException as error:
            if error.args[0].code() in _REFUSED:
                return None
            raise translate(error.args[0], "settings of brokers", self._brokers) from error
        value: str | None = found[key].value if key in found else None
        return value

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in _BAD_LOGIN:
            self._refused.append(translate(error, "cluster", self._brokers))

    def _try(self, what: str, ask: Callable[[], T]) -> T:
        self.reach()
        try:
            return ask()
        except KafkaException as error:
            raise translate(error.args[0], what, self._brokers) from error

    def _result(self, what: str, future: Future[Any]) -> Any:
        return self._try(what, future.result)


class PartitionConsumer:
    """Reads assigned partitions, without group management."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._brokers = settings["bootstrap.servers"]
        self._failed: list[TidegateError] = []
        self._telling = 0
        self._client = _made(
            Consumer,
            {
                # The client asks for a group even where none is used.
                "group.id": "tidegate",
                **settings,
                # A split may stop where no record is.
                "enable.partition.eof": True,
                "error_cb": self._on_error,
                "on_commit": self._told,
                "log_level": 0,
            },
            self._brokers,
        )

    def add(self, positions: Mapping[PartitionId, int]) -> None:
        """Read these partitions too, from the offsets given."""
        self._client.incremental_assign(_partitions(positions))

    def remove(self, place: PartitionId) -> None:
        """Read a partition no more."""
        self._client.incremental_unassign([TopicPartition(*place)])

    def pause(self, places: Collection[PartitionId]) -> None:
        """Fetch nothing of these."""
        self._client.pause([TopicPartition(*place) for place in places])

    def resume(self, places: Collection[PartitionId]) -> None:
        """Fetch them again."""
        self._client.resume([TopicPartition(*place) for place in places])

    def take(self, limit: int) -> list[Message]:
        """What has arrived by now, never waiting for it.

        Raises:
            ConfigError: the broker refused the client.
            UnavailableError: it failed for good.
        """
        found: list[Message] = self._client.consume(limit, 0)
        if self._failed:
            raise self._failed[0]
        return found

    def commit(self, positions: Mapping[PartitionId, int]) -> None:
        """Tell the group, some time soon."""
        self._client.commit(offsets=_partitions(positions), asynchronous=True)
        self._telling += 1

    def end_of(self, place: PartitionId) -> int:
        """The newest end of a partition that a fetch brought along; negative before the first."""
        ends = self._client.get_watermark_offsets(TopicPartition(*place), cached=True)
        return -1 if ends is None else int(ends[1])

    def close(self) -> None:
        """Leave; offsets on their way have a moment to arrive."""
        self._client.unassign()
        for _ in range(_LAST_POLLS):
            if self._telling > 0:
                self._client.poll(_LAST_POLL_S)
        self._client.close()

    def error(self, message: Message) -> TidegateError:
        """What went wrong where a message should be."""
        place = PartitionId(message.topic(), message.partition())
        return translate(message.error(), f"partition {place}", self._brokers)

    def _told(self, error: KafkaError | None, partitions: Sequence[Any]) -> None:
        # A failed commit of group offsets is made up for by the next checkpoint.
        self._telling -= 1

    def _on_error(self, error: KafkaError) -> None:
        # Brokers come and go; the client finds them again by itself.
        if error.fatal() or error.code() in _BAD_LOGIN:
            self._failed.append(translate(error, "source", self._brokers))


def new_producer(settings: Mapping[str, Any]) -> Any:
    """A producer.

    Raises:
        ConfigError: the client does not take a setting.
    """
    return _made(Producer, {**settings, "log_level": 0}, settings["bootstrap.servers"])


def connect(producer: Any, topic: str | None, timeout_s: float) -> None:
    """Wait until a producer has a connection: without one, its requests wait up to a second.

    It finds the brokers by its first answer, and only then connects to one of them, which the second answer proves.
    """
    for _ in range(2):
        producer.list_topics(timeout=timeout_s) if topic is None else producer.list_topics(topic, timeout_s)


def group_metadata(group: str) -> Any:
    """What a producer needs to write offsets of a group; only a consumer can make it, which needs no broker for it."""
    consumer = _made(Consumer, {"group.id": group, "log_level": 0}, "")
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def marker_offset(topic: str, offset: int, metadata: str) -> Any:
    """An offset of the first partition of a topic, with a note."""
    return TopicPartition(topic, 0, offset, metadata)


def is_end(message: Message) -> bool:
    """Whether it is not a message but the end of a partition, for now."""
    return bool(message.error().code() == KafkaError._PARTITION_EOF)


def is_too_large(error: KafkaError) -> bool:
    """Whether a message is larger than the client or the topic takes."""
    return bool(error.code() == KafkaError.MSG_SIZE_TOO_LARGE)


def translate(error: Any, what: str, brokers: str) -> TidegateError:
    """A client's error as what its reader has to do."""
    code, words = error.code(), f"{error.name()}: {error.str()}"
    if code in _REFUSED:
        return ConfigError(f"kafka {what}: permission denied ({words}); grant it to the user of the program")
    if code in _BAD_LOGIN:
        return ConfigError(
            f"kafka {what}: brokers {brokers} refused the connection ({words}); check the security settings"
        )
    if code in _UNKNOWN_TOPIC:
        return UnavailableError(
            f"kafka {what}: topic or partition does not exist ({words}); create it or check the name"
        )
    if code in _GONE:
        return ConfigError(
            f"kafka {what}: the next record is not on the broker ({words}); its retention passed while the "
            "program was stopped, or the start offset is after the end; start with --fresh, from a checkpoint "
            "whose offsets are still available, or at an available offset"
        )
    if code in _OVERTAKEN:
        return UnavailableError(
            f"kafka {what}: the broker ended the transaction or fenced the producer ({words}); the transaction "
            "timed out, or another process uses the same transactional ids; uncommitted records are written again"
        )
    if code in _NO_BROKER:
        return UnavailableError(
            f"kafka {what}: no answer from brokers {brokers} ({words}); check that they are running"
        )
    return UnavailableError(f"kafka {what}: {words} from brokers {brokers}")


def call_client(call: Callable[[float], Any], seconds: float, what: str, brokers: str) -> Any:
    """Let a client's `poll` or `flush` work; its failing for good is raised as an error about `what`.

    The client raises that as an object that is not a Python exception, so that handlers of exceptions and tracebacks
    stumble over it; or as a `SystemError` that does not say why.
    """
    lost: Any = None
    try:
        return call(seconds)
    except SystemError as error:
        raise UnavailableError(
            f"kafka {what}: the client failed; the broker ended the transaction or fenced the producer; "
            "uncommitted records are written again"
        ) from error
    except BaseException:
        raise
    except:  # noqa: E722  # nothing else catches a BaseException
        lost = sys.exc_info()[1]
    raise translate(lost, what, brokers)


@contextmanager
def translated_errors(what: str, brokers: str) -> Iterator[None]:
    """Translate errors of the client in this block into errors about `what`."""
    try:
        yield
    except KafkaException as error:
        raise translate(error.args[0], what, brokers) from error
    except BufferError as error:
        raise UnavailableError(f"kafka {what}: the queue of the client is full; retrying") from error


def _made(client: Callable[[dict[str, Any]], Any], settings: dict[str, Any], brokers: str) -> Any:
    try:
        return client(settings)
    except KafkaException as error:
        # The client's text names the property and may quote its value, which may be a secret.
        text = error.args[0].str()
        key = next((key for key in settings if f'"{key}"' in text), None)
        if key is None:
            raise translate(error.args[0], "client", brokers) from None
        raise ConfigError(
            f"kafka property {key!r} is unknown to the client or has an invalid value; expected a property of "
            "librdkafka, see its CONFIGURATION.md"
        ) from None


def _partitions(positions: Mapping[PartitionId, int]) -> Sequence[Any]:
    return [TopicPartition(place.topic, place.partition, offset) for place, offset in positions.items()]


def _of_admin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings every kind of client understands: addresses of brokers and security."""
    shared = (
        "bootstrap.",
        "client.",
        "security.",
        "sasl.",
        "ssl.",
        "enable.ssl.",
        "enable.sasl.",
        "socket.",
        "https.",
        "oauth_cb",
    )
    return {key: value for key, value in settings.items() if key.startswith(shared)}
