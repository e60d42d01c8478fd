"""Committer of the Kafka sink: commits prepared transactions, resolves unknown outcomes, aborts undecided ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.connectors.kafka._wire import AT_ONCE, TIMEOUT_S, Wire
from tidegate.connectors.kafka.outcome import (
    Action,
    Conclude,
    End,
    Ended,
    Event,
    LookAtState,
    Marker,
    MarkerSeen,
    ReadMarker,
    Resolution,
    StateSeen,
)
from tidegate.connectors.kafka.pool import id_pattern, marker_group
from tidegate.connectors.kafka.producers import Key, prepared_here
from tidegate.connectors.kafka.writer import KafkaWork
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.faults import point
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Committer, CommitterContext, Retry

__all__ = ["KafkaCommitter"]

_PAUSE_S: Final = 0.002
"""Delay before the outcome of a commit is queried; twice as long each time it is still at work."""
_LONGEST_PAUSE_S: Final = 0.05
_OLD_MS: Final = 24 * 60 * 60 * 1_000
"""Less than brokers are ever told to remember offsets of a group; a marker that old may be gone."""


class WrongClusterError(ConfigError):
    """Work is in another cluster than the brokers of the program; asking again does not help."""


class Claim(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """Who uses a prefix."""

    pipeline: str
    uid: str
    home: str


class KafkaCommitter(Committer):
    """Ends transactions: those of this process by their own producers, others over the wire.

    Args:
        settings: Those of the client.
        prefix: What the ids begin with.
        topic: Where claims on the prefix are noted; None where no topic is known in advance.
        take_over: Whether the claim of another pipeline is replaced.
        context: Whose work it may touch.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        prefix: str,
        topic: str | None,
        take_over: bool,
        context: CommitterContext,
    ) -> None:
        self._settings = settings
        self._prefix = prefix
        self._topic = topic
        self._take_over = take_over
        self._context = context
        self._wire: Wire | None = None
        self._cluster = ""
        """The id of the cluster, once it is connected."""

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        """Commit each transaction, or determine its outcome; a denied permission is retried, too.

        Raises:
            ConfigError: the work is in another cluster.
            StateFormatError: another version wrote a payload; nothing was done.
        """
        answers: list[Answer] = []
        for works in _windows([_decoded(committable) for committable in committables]):
            if answers:
                point("commit.between")
            answers += self._commit(works)
        return answers

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Abort every open transaction under the prefix; producers that have one are refused from then on.

        Raises:
            ConfigError: another pipeline uses the prefix, or permission is denied.
            FencedError: the pipeline has a newer owner, whose transactions are not touched.
            UnavailableError: no broker answers.
        """
        self.claim()
        kept, wire = {work.key for work in map(_decoded, keep)}, self._connected()

        def others() -> list[Key]:
            found = [each.key for each in wire.open_transactions(id_pattern(self._prefix))]
            return [key for key in found if key not in kept]

        removed, found = 0, others()
        while found:
            moved = self._fence(found)
            removed += len(found) - len(moved)
            found = others() if moved else []
        return removed

    def fence(self) -> None:
        """Refuse every producer under the prefix: idle ones, and those of removed subtasks.

        Raises:
            ConfigError: the program may not.
            FencedError: the pipeline has a newer owner, whose producers are not touched.
            UnavailableError: no broker answers.
        """
        wire, pattern = self._connected(), id_pattern(self._prefix)
        while moved := self._fence(wire.producers(pattern)):
            pattern = re.compile("|".join(re.escape(name) for name, _, _ in moved))

    def _fence(self, seen: Sequence[Key]) -> list[Key]:
        """Fence all listed producers; returns those that were replaced by newer ones.

        The process may be stopped at any moment and replaced. So it looks, makes sure that it is the owner, and then acts
        on what it has seen and on nothing else, which the coordinators see to by the epoch.
        """
        self._context.check_owner()
        point("abort.before")
        return self._connected().fence(seen)

    def claim(self) -> None:
        """Note that the prefix is this pipeline's, unless it is another's; without effect if no topic is known in advance.

        A claim that is there already is written again: brokers delete an offset when `offsets.retention.minutes` have
        passed since it was committed last.

        Raises:
            ConfigError: it belongs to another pipeline, or the program may not look.
            UnavailableError: no broker answers.
        """
        if self._topic is None:
            return
        wire, group = self._connected(), f"{self._prefix}.tidegate"
        mine = Claim(self._context.pipeline, self._context.uid, self._context.home)
        note = wire.note(group, self._topic)
        found = None if note is None else _read(note, Claim)
        if found is not None and found != mine and not self._take_over:
            raise ConfigError(
                f"kafka sink: transactional ids that start with {self._prefix!r} belong to pipeline "
                f"{found.pipeline!r}, operator {found.uid!r}, with its checkpoints in {found.home or 'memory'}; "
                "choose another prefix; or, if that pipeline will not run again, start with --take-over"
            )
        wire.leave_note(group, self._topic, msgspec.json.encode(mine).decode())

    def close(self) -> None:
        """Disconnect."""
        if self._wire is not None:
            self._wire.close()

    def _commit(self, works: Sequence[KafkaWork]) -> list[Answer]:
        own = [prepared_here.take(work.cluster, work.key) for work in works]
        done = [transaction is not None and transaction.commit() for transaction in own]
        left = iter(self._resolved([work for work, there in zip(works, done, strict=True) if not there]))
        return [CommitAnswer.COMMITTED if there else next(left) for there in done]

    def _resolved(self, works: Sequence[KafkaWork]) -> list[Answer]:
        """The outcome of each, even if the coordinators of others do not answer."""
        try:
            return self._together(works)
        except WrongClusterError:
            raise
        except (ConfigError, UnavailableError) as error:
            if len(works) == 1:
                return [Retry(str(error))]
            return [answer for work in works for answer in self._resolved([work])]

    def _together(self, works: Sequence[KafkaWork]) -> list[Answer]:
        """Ask about all of them at once, until no question is left."""
        self._check_cluster(works)
        clock, pause_s = self._context.clock, _PAUSE_S
        deadline = clock.monotonic() + TIMEOUT_S
        machines = [
            Resolution(work.marker, old=clock.now_ms() - work.prepared_ms > _OLD_MS) for work in works
        ]
        actions = [machine.start() for machine in machines]
        while any(not isinstance(action, Conclude) for action in actions) and clock.monotonic() < deadline:
            if any(isinstance(action, LookAtState) for action in actions):
                clock.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            for place, event in self._perform(works, actions):
                actions[place] = machines[place].on(event)
        open_still = Retry(f"the coordinator is still ending the transaction after {TIMEOUT_S:g} s")
        return [action.answer if isinstance(action, Conclude) else open_still for action in actions]

    def _perform(self, works: Sequence[KafkaWork], actions: Sequence[Action]) -> Iterator[tuple[int, Event]]:
        """What comes of the actions: a request for all that are alike."""
        wire, alike = self._connected(), defaultdict[type[Action], list[int]](list)
        for place, action in enumerate(actions):
            alike[type(action)].append(place)
        if places := alike[ReadMarker]:
            groups = {marker_group(works[place].transactional_id): works[place].topic for place in places}
            for place, note in zip(places, wire.notes(groups).values(), strict=True):
                yield place, MarkerSeen(None if note is None else _read(note, Marker))
        if places := alike[End]:
            for place, code in zip(places, wire.commit([works[place].key for place in places]), strict=True):
                yield place, Ended(code)
        if places := alike[LookAtState]:
            for place, state in zip(places, wire.states([works[place].key for place in places]), strict=True):
                yield place, StateSeen(state)

    def _check_cluster(self, works: Sequence[KafkaWork]) -> None:
        """Another cluster may have a transaction of the same name, which must not be ended."""
        for work in works:
            self._connected()
            if work.cluster not in ("", self._cluster):
                raise WrongClusterError(
                    f"kafka sink: transaction {work.transactional_id!r} of checkpoint {work.marker.checkpoint} is "
                    f"in cluster {work.cluster!r}; got brokers {self._settings['bootstrap.servers']} of cluster "
                    f"{self._cluster!r}; start with the previous brokers, stop the job, then change the brokers"
                )

    def _connected(self) -> Wire:
        from tidegate.connectors.kafka._client import Cluster

        if self._wire is None:
            # It tells soon what is wrong; the other client tries for half a minute and does not know.
            self._cluster = Cluster(self._settings).id
            self._wire = Wire(self._settings, self._context.clock)
        return self._wire


def _windows(works: Sequence[KafkaWork]) -> Iterator[list[KafkaWork]]:
    """What is asked about at once: one, then twice as many each time, so that brokers that are away or refuse us are asked once.

    No id is in a window twice, as the answers about an id depend on what was asked before.
    """
    width, window = 1, list[KafkaWork]()
    for work in works:
        if len(window) == width or any(work.transactional_id == other.transactional_id for other in window):
            yield window
            width, window = min(2 * width, AT_ONCE), []
        window.append(work)
    if window:
        yield window


def _read(note: str, kind: Callable[..., Any]) -> Any:
    try:
        return msgspec.json.decode(note, type=kind)
    except msgspec.MsgspecError:
        # Written by another program, so it says nothing about this transaction.
        return None


def _decoded(committable: Committable) -> KafkaWork:
    try:
        return msgspec.msgpack.decode(committable.payload, type=KafkaWork)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"sink {committable.uid!r}: the transaction of {committable.describe} cannot be read ({error}); "
            "expected version 1; run the version that wrote it"
        ) from error
