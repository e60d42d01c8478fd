"""Producers of one subtask: each has a transactional id of the pool and at most one transaction.

A prepared transaction waits here for its commit, which another thread performs; so does its process's registry, where
the committer of the same process finds it. Whatever goes wrong with a producer ends it: its next incarnation has a
newer epoch, so no request of the old one that is still on its way can touch the next transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidegate.connectors.kafka.outcome import Marker
from tidegate.connectors.kafka.pool import IdPool, marker_group
from tidegate.errors import RecordError, TidegateError, UnavailableError

if TYPE_CHECKING:
    from tidegate.clock import Clock

__all__ = ["Key", "Producers", "Transaction", "prepared_here"]

INIT_TIMEOUT_S: Final = 60.0
FLUSH_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = 30.0
_ASSIGNED_TIMEOUT_S: Final = 30.0
_LASTING: Final = {"statistics.interval.ms": 200}
_BRIEF: Final = {
    "statistics.interval.ms": 50,
    # A client rests for half of it before it connects to a broker it has just discovered.
    "reconnect.backoff.ms": 20,
}
"""Settings for a producer that lives for an epoch, which may be shorter than all that another one waits for."""
_GRACE_S: Final = 5.0
"""How much later than it was told a call of the client may come back."""
_POLL_S: Final = 0.02
_SHOWN: Final = 60

Key = tuple[str, int, int]
"""Transactional id, producer id, epoch: what names a transaction that is prepared."""


class Registry:
    """Prepared transactions of this process, by cluster and name; safe to use from any thread.

    A cluster gives every producer id once. Another cluster counts from the same number, so a key alone can name two
    transactions. The cluster is its id as its brokers tell it, as one cluster can have several addresses.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prepared: dict[tuple[str, Key], Transaction] = {}

    def add(self, cluster: str, key: Key, transaction: Transaction) -> None:
        """It waits for its commit."""
        with self._lock:
            self._prepared[cluster, key] = transaction

    def take(self, cluster: str, key: Key) -> Transaction | None:
        """The transaction, which is the caller's to end now; None if it is not of this process, or ended."""
        with self._lock:
            return self._prepared.pop((cluster, key), None)


prepared_here: Final = Registry()


class Failures:
    """The first failed delivery; holds no reference to a producer, so that the producer can be dropped."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self.first: TidegateError | None = None

    def on_delivery(self, error: Any, message: Any) -> None:
        """Delivery callback of the client: keeps the first error."""
        from tidegate.connectors.kafka._client import is_too_large, translate

        if error is None or self.first is not None:
            return
        where = f"sink, topic {message.topic()!r}"
        if is_too_large(error):
            value, key = message.value() or b"", message.key()
            self.first = RecordError(
                f"kafka {where}: partition {message.partition()} rejects the message of {len(value)} bytes with "
                f"key {key!r} that starts with {value[:_SHOWN]!r}; raise max.message.bytes of the topic, or write "
                "smaller messages"
            )
        else:
            self.first = translate(error, where, self._brokers)


class Identity:
    """The producer id and epoch, from the statistics of the client."""

    def __init__(self) -> None:
        self.found: tuple[int, int] | None = None

    def on_statistics(self, text: str) -> None:
        """Statistics callback of the client."""
        if self.found is None:
            told = msgspec.json.decode(text).get("eos", {})
            if told.get("idemp_state") == "Assigned" and told.get("producer_id", -1) >= 0:
                self.found = told["producer_id"], told["producer_epoch"]


class Transaction:
    """A producer under a transactional id; one transaction after the other."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        transactional_id: str,
        topic: str | None,
        owner: Producers,
        clock: Clock,
        *,
        brief: bool,
    ) -> None:
        from tidegate.connectors.kafka._client import connect, new_producer, translated_errors

        self.id = transactional_id
        self.failures = Failures(settings["bootstrap.servers"])
        self._owner = owner
        self._clock = clock
        self._identity = Identity()
        more = {
            "transactional.id": transactional_id,
            "stats_cb": self._identity.on_statistics,
            "on_delivery": self.failures.on_delivery,
        }
        haste = _BRIEF if brief else _LASTING
        self._brokers = settings["bootstrap.servers"]
        self.producer: Any = new_producer({**haste, **settings, **more})
        with translated_errors(f"transactional id {transactional_id!r}", self._brokers):
            if brief:
                connect(self.producer, topic, INIT_TIMEOUT_S)
            self.producer.init_transactions(INIT_TIMEOUT_S)
        self.key: Key | None = None if brief else self._named()
        """Known after the first seal at the latest: the client reports it some time after the start."""
        self.began = 0.0
        """When it began to take records, as monotonic seconds; the broker starts to count later, with the first one."""

    def begin(self) -> None:
        """Take records from now on."""
        self.began = self._clock.monotonic()
        self.producer.begin_transaction()

    def seal(self, topic: str, marker: Marker) -> Key:
        """Make all records durable and add the marker; from here on only the broker can lose it. Returns its name.

        Raises:
            TidegateError: a record was not delivered, or the broker did not take the marker.
        """
        from tidegate.connectors.kafka._client import group_metadata, marker_offset, translated_errors

        note, what = msgspec.json.encode(marker).decode(), f"transaction {self.id!r}"
        offset, group = marker_offset(topic, marker.checkpoint, note), group_metadata(marker_group(self.id))
        send = self.producer.send_offsets_to_transaction
        with translated_errors(what, self._brokers):
            in_time(lambda: send([offset], group, END_TIMEOUT_S), END_TIMEOUT_S + _GRACE_S, what)
        self.key = self.key or self._named()
        return self.key

    def commit(self) -> bool:
        """Commit; False if that is not known to have worked, after which the producer is gone."""
        from tidegate.connectors.kafka._client import translated_errors

        try:
            with translated_errors(f"transaction {self.id!r}", self._brokers):
                self.producer.commit_transaction(END_TIMEOUT_S)
        except TidegateError:
            self.drop()
            return False
        self._owner.give_back(self)
        return True

    def listen(self) -> None:
        """Serve the client's queued callbacks."""
        from tidegate.connectors.kafka._client import call_client

        call_client(self.producer.poll, 0, f"transactional id {self.id!r}", self._brokers)

    def drop(self) -> None:
        """Drop the producer without closing it: `close` would abort its prepared transaction."""
        self.producer = None

    def _named(self) -> Key:
        from tidegate.connectors.kafka._client import call_client

        deadline = self._clock.monotonic() + _ASSIGNED_TIMEOUT_S
        while self._identity.found is None:
            call_client(self.producer.poll, _POLL_S, f"transactional id {self.id!r}", self._brokers)
            if self._clock.monotonic() > deadline:
                raise UnavailableError(
                    f"kafka sink: the client does not report the producer epoch of {self.id!r}"
                )
        return self.id, *self._identity.found


class Producers:
    """Hands out producers of a pool of ids, and takes them back once their transaction is committed.

    Args:
        settings: Those of the client.
        cluster: The id of the cluster.
        pool: The ids.
        topic: Where records go, if that is known.
        clock: For waiting.
        brief: Whether they live for an epoch only.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        cluster: str,
        pool: IdPool,
        topic: str | None,
        clock: Clock,
        *,
        brief: bool,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._brief = brief
        self._pool = pool
        self._topic = topic
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[Transaction] = []
        self._out: set[Transaction] = set()
        self._idle.append(self._new())

    def take(self) -> Transaction:
        """A producer with a transaction that takes records.

        Raises:
            UnavailableError: every id holds work that waits for its commit, or no broker answers.
        """
        with self._lock:
            transaction = self._idle.pop() if self._idle else None
        transaction = transaction or self._new()
        transaction.begin()
        with self._lock:
            self._out.add(transaction)
        return transaction

    def give_back(self, transaction: Transaction) -> None:
        """Its transaction is committed; the id may be used again."""
        with self._lock:
            self._out.discard(transaction)
            self._idle.append(transaction)

    def listen(self) -> None:
        """Let nothing pile up in those that have nothing to do: their clients tell statistics all the time."""
        with self._lock:
            for transaction in self._idle:
                with suppress(TidegateError):  # of one that has failed it shows when it is needed
                    transaction.listen()

    def close(self) -> None:
        """Drop all producers; prepared transactions stay prepared."""
        with self._lock:
            for transaction in (*self._idle, *self._out):
                if transaction.key is not None:
                    prepared_here.take(self._cluster, transaction.key)
                transaction.drop()
            self._idle.clear()
            self._out.clear()

    def _new(self) -> Transaction:
        return Transaction(
            self._settings, self._pool.take(), self._topic, self, self._clock, brief=self._brief
        )


def in_time(call: Callable[[], object], seconds: float, what: str) -> None:
    """Call the client on a separate thread, which is abandoned if it does not return.

    Where the coordinator of a group goes away, the client may wait for it forever, regardless of the timeout (librdkafka,
    issue 5456).

    Raises:
        UnavailableError: it did not come back in time.
    """
    answer: Future[object] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="tidegate-kafka-call", daemon=True).start()
    try:
        answer.result(seconds)
    except TimeoutError:
        raise UnavailableError(
            f"kafka {what}: a call of the client has not returned for {seconds:.0f} s, longer than its timeout; "
            "its producer is abandoned"
        ) from None
