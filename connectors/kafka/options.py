"""Options of the Kafka source and sink.

Settings of the client come in three layers: our defaults, what the program says, and what the promised delivery
needs. A setting of the program that would break the promise is refused by name.

Example:
    >>> client_settings("b:9092", {"fetch.wait.max.ms": "5"}, defaults={}, guaranteed=SOURCE_GUARANTEED)["fetch.wait.max.ms"]
    '5'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from tidegate.connectors.base.dead_letters import OnError, check_on_error
from tidegate.connectors.spi import OnBranch
from tidegate.errors import ConfigError
from tidegate.options import PartialOptions, option

__all__ = [
    "SINK_DEFAULTS",
    "SINK_GUARANTEED",
    "SOURCE_BRIEF",
    "SOURCE_DEFAULTS",
    "SOURCE_GUARANTEED",
    "KafkaSinkOptions",
    "KafkaSourceOptions",
    "OnTopicChange",
    "client_settings",
]

OnTopicChange = Literal["fail", "drop", "reset"]

Guaranteed = Mapping[str, tuple[Any, str]]
"""Values by key, each with the promise that needs it."""

SOURCE_DEFAULTS: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    # A full queue makes the client rest; by default for a second, in which a quick program has nothing to do.
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 262_144,
    "fetch.message.max.bytes": 4 << 20,
}
SOURCE_BRIEF: Final[Mapping[str, Any]] = {"queued.min.messages": 10_000}
"""In addition, for a reader of one epoch: limit prefetching."""
SOURCE_GUARANTEED: Final[Guaranteed] = {
    "enable.auto.commit": (False, "offsets are committed when a checkpoint is settled, never before"),
    "enable.auto.offset.store": (False, "offsets are committed when a checkpoint is settled, never before"),
    "auto.offset.reset": (
        "error",
        "an offset that is no longer available is an error; reading does not continue elsewhere",
    ),
}
SINK_DEFAULTS: Final[Mapping[str, Any]] = {
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    # What Java's client and so every other producer of a company does with keys.
    "partitioner": "murmur2_random",
}
SINK_GUARANTEED: Final[Guaranteed] = {
    "enable.idempotence": (True, "a retried request writes each record once"),
    "acks": ("all", "acknowledged records survive the loss of a broker"),
    "delivery.report.only.error": (True, "every failed delivery is an error"),
}
_OURS: Final = "no value, because the connector uses this callback itself; leave it out"
_SAID_ELSEWHERE: Final[Mapping[str, str]] = {
    "bootstrap.servers": "the argument brokers",
    "group.id": "the argument group of a source",
    "transactional.id": "the option prefix, with which all ids of a sink start",
    "transaction.timeout.ms": "the option transaction_timeout_ms, which is checked against the brokers' limit",
    "error_cb": _OURS,
    "stats_cb": _OURS,
    "on_commit": _OURS,
    "on_delivery": _OURS,
}
"""Properties that would be silently overridden, each with where its value is said instead."""
_ALIASES: Final = {"request.required.acks": "acks", "-1": "all"}


_SOURCE: Final = "connector.kafka.source."
_SINK: Final = "connector.kafka.sink."


@dataclass(frozen=True)
class KafkaSourceOptions(PartialOptions):
    """How a source behaves.

    Args:
        on_error: `fail` at a record that cannot be read, `skip` it, or let the source's `dead_letters` have it.
        on_topic_change: what to do if a topic was removed or recreated since the checkpoint: `fail`, `drop` what was
            left to read of it, or `reset` to the beginning of the new one.
        discovery_interval_ms: how often to look for new topics and partitions; None never.
        commit_offsets: whether the group learns how far the pipeline is, if there is a group.
        timestamps: whether records carry Kafka's timestamps; without them reading is a little quicker.

    Raises:
        ConfigError: a value is not one of these.
    """

    on_error: OnError = option(
        _SOURCE + "on-error", "fail", "what to do with a record that cannot be read: fail or skip"
    )
    on_topic_change: OnTopicChange = option(
        _SOURCE + "on-topic-change",
        "fail",
        "when a topic was removed or recreated since the checkpoint: fail, drop or reset",
    )
    discovery_interval_ms: int | None = option(
        _SOURCE + "discovery-interval", 300_000, "how often to look for new topics and partitions"
    )
    commit_offsets: bool = option(
        _SOURCE + "commit-offsets",
        True,
        "whether the group's offsets are committed, if there is a group",
    )
    timestamps: bool = option(_SOURCE + "timestamps", True, "whether records carry Kafka's timestamps")

    def __post_init__(self) -> None:
        _one_of("source on_error", self.on_error, OnError)
        _one_of("source on_topic_change", self.on_topic_change, OnTopicChange)
        if self.discovery_interval_ms is not None and self.discovery_interval_ms < 1:
            raise ConfigError(
                f"kafka source discovery_interval_ms is {self.discovery_interval_ms}; expected at least 1, or None"
            )


@dataclass(frozen=True)
class KafkaSinkOptions(PartialOptions):
    """How an exactly-once sink behaves.

    Args:
        prefix: prefix of transactional ids; None generates it from pipeline and operator.
        pool: how many transactional ids a subtask may use, so how many checkpoints may be on their way.
        transaction_timeout_ms: when the broker aborts a transaction; None uses the broker's limit, at most
            15 minutes.
        take_over: use a prefix even though another pipeline claimed it.
        on_branch: `refuse` a restore from before committed records, or `append` the replayed ones.
        on_error: `fail` at a record that cannot be made a message, `skip` it, or write it as a dead letter.
        dead_letters: the topic for those; they are written in the same transaction as the other messages.

    Raises:
        ConfigError: a value makes no sense.
    """

    prefix: str | None = None
    pool: int = option(
        _SINK + "pool", 5, "transactional ids per subtask; limits concurrent checkpoints", least=2
    )
    transaction_timeout_ms: int | None = option(
        _SINK + "transaction-timeout",
        None,
        "timeout after which the broker aborts a transaction; default: the broker's limit, at most 15 minutes",
    )
    take_over: bool = option(
        _SINK + "take-over", False, "take over a prefix of transactional ids that another pipeline claimed"
    )
    on_branch: OnBranch = option(
        _SINK + "on-branch",
        "refuse",
        "when an older checkpoint is restored: refuse if records were committed after it, or append",
    )
    on_error: OnError = option(
        _SINK + "on-error",
        "fail",
        "what to do with a record that cannot be made a message: fail, skip or dead_letter",
    )
    dead_letters: str | None = option(_SINK + "dead-letters", None, "the topic of dead letters")

    def __post_init__(self) -> None:
        check_on_error("kafka sink", self.on_error, self.dead_letters)
        _one_of("sink on_branch", self.on_branch, OnBranch)
        if self.prefix == "":
            raise ConfigError(
                "kafka sink prefix is empty; expected a non-empty string, or None for a generated prefix"
            )
        if self.pool < 2:
            raise ConfigError(
                f"kafka sink pool is {self.pool}; expected at least 2: one transaction receives records while "
                "another waits for its commit"
            )
        if self.transaction_timeout_ms is not None and self.transaction_timeout_ms < 1:
            raise ConfigError(
                f"kafka sink transaction_timeout_ms is {self.transaction_timeout_ms}; expected at least 1"
            )


def client_settings(
    brokers: str, properties: Mapping[str, Any], *, defaults: Mapping[str, Any], guaranteed: Guaranteed
) -> dict[str, Any]:
    """The client's settings in layers.

    Raises:
        ConfigError: a property would break what the connector promises, or is said elsewhere.
    """
    for key, value in properties.items():
        if key in _SAID_ELSEWHERE:
            raise ConfigError(
                f"kafka property {key!r} cannot be set in properties; expected {_SAID_ELSEWHERE[key]}"
            )
        if _ALIASES.get(key, key) not in guaranteed:
            continue
        wanted, promise = guaranteed[_ALIASES.get(key, key)]
        said = _ALIASES.get(str(value), str(value))
        if said.lower() != str(wanted).lower():
            raise ConfigError(
                f"kafka property {key!r} is {said!r}; expected {str(wanted).lower()!r}, because {promise}; leave it out"
            )
    fixed = {key: wanted for key, (wanted, _) in guaranteed.items()}
    return {**defaults, **properties, **fixed, "bootstrap.servers": brokers}


def _one_of(what: str, value: str, words: Any) -> None:
    if value not in get_args(words):
        raise ConfigError(f"kafka {what} is {value!r}; expected one of {', '.join(get_args(words))}")
