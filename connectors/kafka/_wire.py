"""Kafka protocol requests that librdkafka lacks: end a transaction of another process, list and abort transactions.

Speaks Kafka's protocol through kafka-python, which is imported when it is needed. librdkafka's transactions are those
of protocol version 1: the epoch of a producer does not change with a commit, so (producer id, epoch) of a transaction
that was prepared names it until a new producer is initialized under its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tidegate.clock import Clock
from tidegate.connectors.kafka.producers import Key
from tidegate.connectors.kafka.security import admitted
from tidegate.errors import ConfigError, MissingExtraError, UnavailableError

__all__ = ["AT_ONCE", "TIMEOUT_S", "OpenTransaction", "Wire"]

TIMEOUT_S: Final = 30.0
AT_ONCE: Final = 32
"""As many requests may be on their way to a broker."""
_PAUSE_S: Final = 0.02
_END_TXN_V1: Final = 1
_INIT_PRODUCER_V4: Final = 4
_FENCING_TIMEOUT_MS: Final = 60_000
_OPEN: Final = frozenset({"Ongoing"})
_ENDING: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_ANY: Final = re.compile(".*", re.DOTALL)
_LATER: Final = frozenset({14, 15, 16, 51})
_ELSEWHERE: Final = frozenset({15, 16})
_NOT_FOUND: Final = 105
_NOTHING_OPEN: Final = 48
_MOVED: Final = frozenset({47, 49, 90})
"""An old epoch, an old producer id, or both: someone has begun under the id since."""
_EPOCH_AS_BEFORE: Final = -2
"""No code of Kafka: nothing is open any more, but the producer may begin again."""
_OFFSETS: Final = "__consumer_offsets"
"""Where markers are."""
_REFUSED: Final = frozenset({29, 30, 31, 53})

State: TypeAlias = Literal["ending", "closed", "unknown"]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that takes records or waits for its end."""

    transactional_id: str
    producer_id: int
    epoch: int
    since_ms: int
    timeout_ms: int
    prepared: bool
    """Whether it has its marker, which it gets last."""
    partitions: tuple[str, ...]

    @property
    def key(self) -> Key:
        """What names it."""
        return self.transactional_id, self.producer_id, self.epoch


class Wire:
    """A connection to the coordinators of transactions and groups.

    Args:
        settings: Those of librdkafka.
        clock: For waiting.

    Raises:
        ConfigError: a security setting has no counterpart here, or names what cannot be read.
        MissingExtraError: kafka-python is not installed.
        UnavailableError: no broker answers.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._brokers = settings["bootstrap.servers"]
        self._clock = clock
        try:
            from kafka import KafkaAdminClient
            from kafka.errors import KafkaError
        except ImportError as error:
            raise MissingExtraError(
                "kafka support is not installed; run: pip install 'tidegate[kafka]'"
            ) from error
        self._error: type[Exception] = KafkaError
        try:
            self._client = KafkaAdminClient(
                **admitted(settings, clock),
                bootstrap_timeout_ms=int(TIMEOUT_S * 1_000),
                max_in_flight_requests_per_connection=AT_ONCE,
            )
        except KafkaError as error:
            raise self._unavailable("the cluster", error) from error

    def commit(self, transactions: Sequence[Key]) -> list[int]:
        """Tell the coordinators to commit, without waiting for one before the next; their answers as Kafka's error codes.

        Raises:
            ConfigError: the program may not.
            UnavailableError: one gave no answer, so anything may have happened to any.
        """
        from kafka.protocol.producer.transaction import EndTxnRequest

        requests = [
            EndTxnRequest(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=True,
                max_version=_END_TXN_V1,
            )
            for name, producer_id, epoch in transactions
        ]
        codes: list[int] = [answer.error_code for answer in self._to_coordinators(requests)]
        for (name, _, _), code in zip(transactions, codes, strict=True):
            self._check_allowed(name, code)
        return codes

    def fence(self, producers: Sequence[Key]) -> list[Key]:
        """Abort what these producers have open, and fence them, even if they have no open transaction.

        A producer is named with its epoch, and the coordinator does nothing for an epoch that is not the present one. So
        a producer that began under the same id since is not touched.

        Returns:
            Those whose id has another producer or epoch by now.

        Raises:
            ConfigError: the program may not.
            UnavailableError: a coordinator does not do it.
        """
        deadline, moved = self._clock.monotonic() + TIMEOUT_S, list[Key]()
        ask, left = self._abort_and_raise_epoch, list(producers)
        while left:
            again, without = list[Key](), list[Key]()
            for key, code in zip(left, ask(left), strict=True):
                self._check_allowed(key[0], code)
                if code in _MOVED:
                    moved.append(key)
                elif code == _EPOCH_AS_BEFORE:
                    without.append(key)
                elif code in _LATER and self._clock.monotonic() < deadline:
                    again.append(key)
                elif code != 0:
                    raise UnavailableError(
                        f"kafka transaction {key[0]!r} could not be aborted (error {code}) at {self._brokers}"
                    )
            left = again
            if again:
                self._clock.sleep(_PAUSE_S)
            elif without:
                ask, left = self._raise_epoch, without
        return moved

    def _abort_and_raise_epoch(self, producers: Sequence[Key]) -> list[int]:
        """Since Kafka 4.0 an abort raises the epoch, with or without an open transaction; error codes, or that it did not."""
        from kafka.protocol.producer.transaction import EndTxnRequest

        answers = self._to_coordinators(
            [
                EndTxnRequest(
                    transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=False
                )
                for name, producer_id, epoch in producers
            ]
        )
        raised = [answer.error_code == 0 and answer.producer_epoch != -1 for answer in answers]
        return [
            0 if done else _EPOCH_AS_BEFORE if answer.error_code in (0, _NOTHING_OPEN) else answer.error_code
            for answer, done in zip(answers, raised, strict=True)
        ]

    def _raise_epoch(self, producers: Sequence[Key]) -> list[int]:
        """What brokers before 4.0 offer; they compare the epoch only where no transaction is open."""
        from kafka.protocol.producer.transaction import InitProducerIdRequest

        requests = [
            InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=_FENCING_TIMEOUT_MS,
                producer_id=producer_id,
                producer_epoch=epoch,
                max_version=_INIT_PRODUCER_V4,
            )
            for name, producer_id, epoch in producers
        ]
        return [answer.error_code for answer in self._to_coordinators(requests)]

    def states(self, transactions: Sequence[Key]) -> list[State]:
        """Whether each is open or being ended, its id has none like it, or the id is unknown."""
        names = [name for name, _, _ in transactions]
        try:
            found = self._try(names[0], lambda: self._client.describe_transactions(names))
        except LookupError:
            # The client then only reports an unknown error.
            return ["unknown"] if len(names) == 1 else [self.states([each])[0] for each in transactions]
        return [_state(found[name], producer_id, epoch) for name, producer_id, epoch in transactions]

    def open_transactions(self, pattern: re.Pattern[str]) -> list[OpenTransaction]:
        """The transactions that take records or wait for their end, under ids that match as a whole."""
        return [_open(name, found) for name, found in sorted(self._described(_OPEN, pattern).items())]

    def producers(self, pattern: re.Pattern[str]) -> list[Key]:
        """The newest producer of each id that matches as a whole, whether it has a transaction or not."""
        found = self._described(None, pattern)
        return [(name, each.producer_id, each.producer_epoch) for name, each in sorted(found.items())]

    def open_on(self, topics: Collection[str]) -> list[str]:
        """The transactions with records of some topics that are open or being ended, as text.

        Raises:
            ConfigError: the program may not see them.
            UnavailableError: no broker answers.
        """
        found = {
            name: sorted(
                f"{place.topic}:{place.partition}" for place in each.topic_partitions if place.topic in topics
            )
            for name, each in self._described(_ENDING, _ANY).items()
        }
        return [
            f"transaction {name!r} is open on {', '.join(places)}"
            for name, places in sorted(found.items())
            if places
        ]

    def note(self, group: str, topic: str) -> str | None:
        """The metadata of a group's committed offset of the first partition of a topic."""
        return self.notes({group: topic})[group]

    def notes(self, places: Mapping[str, str]) -> dict[str, str | None]:
        """The same for several groups, each with its topic."""
        from kafka.structs import TopicPartition

        asked = {group: [TopicPartition(topic, 0)] for group, topic in places.items()}
        found = self._try(next(iter(places)), lambda: self._client.list_group_offsets(asked))
        return {group: _note(found[group].get(asked[group][0])) for group in places}

    def leave_note(self, group: str, topic: str, text: str) -> None:
        """Commit an offset with a note, outside of any transaction."""
        from kafka.structs import OffsetAndMetadata, TopicPartition

        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(0, text, -1)}
        self._try(group, lambda: self._client.alter_group_offsets(group, offsets))

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def _described(self, states: Collection[str] | None, pattern: re.Pattern[str]) -> dict[str, Any]:
        """The transactions in some states, or in any, by their ids, which match as a whole."""
        listed = self._try(
            "list of transactions", lambda: self._client.list_transactions(state_filters=sorted(states or ()))
        )
        names = sorted(
            {
                row.transactional_id
                for rows in listed.values()
                for row in rows
                if pattern.fullmatch(row.transactional_id)
            }
        )
        described: dict[str, Any] = {}
        if names:
            described = self._try("transactions", lambda: self._client.describe_transactions(names))
        return {
            name: found for name, found in described.items() if states is None or found.state.value in states
        }

    def _to_coordinators(self, requests: Sequence[Any]) -> list[Any]:
        """The answers of the coordinators of the transactional ids that requests are about."""
        from kafka.protocol.metadata import CoordinatorType

        names = [request.transactional_id for request in requests]

        async def send() -> list[Any]:
            nodes = await self._client._find_coordinator_ids(names, key_type=CoordinatorType.TRANSACTION)
            sent = [
                self._client._manager.send(request, node_id=nodes[request.transactional_id])
                for request in requests
            ]
            return [await each for each in sent]

        answers: list[Any] = self._try(names[0], lambda: self._client._manager.run(send))
        if any(answer.error_code in _ELSEWHERE for answer in answers):
            self._client._manager.cluster._coordinators.clear()
        return answers

    def _try(self, what: str, ask: Callable[[], Any]) -> Any:
        deadline = self._clock.monotonic() + TIMEOUT_S
        while True:
            try:
                return ask()
            except self._error as error:
                code = getattr(error, "errno", None)
                if code == _NOT_FOUND:
                    raise LookupError(what) from error
                self._check_allowed(what, code)
                if code not in _LATER or self._clock.monotonic() > deadline:
                    raise self._unavailable(what, error) from error
                self._client._manager.cluster._coordinators.clear()
                self._clock.sleep(_PAUSE_S)

    def _check_allowed(self, what: str, code: int | None) -> None:
        if code in _REFUSED:
            raise ConfigError(
                f"kafka sink: permission denied for {what!r} (error {code}); transactions need write and describe on "
                "their ids and read on the groups named after them; grant them to the user of the program"
            )

    def _unavailable(self, what: str, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"kafka sink: no usable answer about {what} from {self._brokers} ({type(error).__name__}: {error})"
        )


def _state(found: Any, producer_id: int, epoch: int) -> State:
    same = (found.producer_id, found.producer_epoch) == (producer_id, epoch)
    # An end that the coordinator decided itself carries the next epoch.
    ending = found.state.value in _ENDING and (same or found.state.value not in _OPEN)
    return "ending" if ending else "closed"


def _note(found: Any) -> str | None:
    if found is None or found.offset < 0:
        return None
    # librdkafka sends the zero that ends its texts along.
    note: str = found.metadata.rstrip("\0")
    return note


def _open(name: str, found: Any) -> OpenTransaction:
    marked = any(place.topic == _OFFSETS for place in found.topic_partitions)
    records = (place for place in found.topic_partitions if place.topic != _OFFSETS)
    return OpenTransaction(
        name,
        found.producer_id,
        found.producer_epoch,
        found.transaction_start_time_ms,
        found.transaction_timeout_ms,
        marked,
        tuple(sorted(f"{place.topic}:{place.partition}" for place in records)),
    )
