"""Commits prepared transactions, finds out what became of doubtful ones, and removes what nobody decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.connectors.kafka._wire import TIMEOUT_S, Wire
from tidegate.connectors.kafka.outcome import (
    Action,
    Conclude,
    End,
    Ended,
    LookAtState,
    Marker,
    MarkerSeen,
    ReadMarker,
    Resolution,
    StateSeen,
)
from tidegate.connectors.kafka.pool import id_pattern, marker_group
from tidegate.connectors.kafka.producers import prepared_here
from tidegate.connectors.kafka.writer import KafkaWork
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.faults import point
from tidegate.twophase.spi import CommitAnswer, Committable, Committer, CommitterContext

__all__ = ["KafkaCommitter"]

_PAUSE_S: Final = 0.02
_OLD_MS: Final = 24 * 60 * 60 * 1_000
"""Less than brokers are ever told to remember offsets of a group; a marker that old may be gone."""


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
        take_over: Whether somebody else's claim is set aside.
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

    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        """Commit each transaction, or find out what became of it.

        Raises:
            ConfigError: the program may not.
            StateFormatError: another version wrote a payload; nothing was done.
        """
        answers: list[CommitAnswer] = []
        for work in [_decoded(committable) for committable in committables]:
            if answers:
                point("commit.between")
            answers.append(self._commit(work))
        return answers

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Abort every open transaction under the prefix; producers that still have one are shut out.

        Raises:
            ConfigError: somebody else uses the prefix, or the program may not.
            UnavailableError: no broker answers.
        """
        self.claim()
        kept = {(work.transactional_id, work.producer_id, work.epoch) for work in map(_decoded, keep)}
        wire = self._connected()
        removed = 0
        for found in wire.open_transactions(id_pattern(self._prefix)):
            if (found.transactional_id, found.producer_id, found.epoch) not in kept:
                wire.abort(found.transactional_id)
                removed += 1
        return removed

    def claim(self) -> None:
        """Make sure that the prefix is nobody else's; says nothing where no topic is known in advance.

        Raises:
            ConfigError: it belongs to somebody else, or the program may not look.
            UnavailableError: no broker answers.
        """
        if self._topic is None:
            return
        wire, group = self._connected(), f"{self._prefix}.tidegate"
        mine = Claim(self._context.pipeline, self._context.uid, self._context.home)
        note = wire.note(group, self._topic)
        found = None if note is None else _read(note, Claim)
        if found == mine:
            return
        if found is not None and not self._take_over:
            raise ConfigError(
                f"kafka sink: transactional ids that begin with {self._prefix!r} belong to pipeline "
                f"{found.pipeline!r}, operator {found.uid!r}, with its checkpoints in {found.home or 'memory'}; "
                "choose another prefix; or, if that pipeline is gone for good, start with --take-over"
            )
        wire.leave_note(group, self._topic, msgspec.json.encode(mine).decode())

    def close(self) -> None:
        """Disconnect."""
        if self._wire is not None:
            self._wire.close()

    def _commit(self, work: KafkaWork) -> CommitAnswer:
        own = prepared_here.take((work.transactional_id, work.producer_id, work.epoch))
        if own is not None and own.commit():
            return CommitAnswer.COMMITTED
        try:
            return self._resolve(work)
        except UnavailableError:
            return CommitAnswer.RETRY

    def _resolve(self, work: KafkaWork) -> CommitAnswer:
        clock = self._context.clock
        machine = Resolution(work.marker, old=clock.now_ms() - work.prepared_ms > _OLD_MS)
        deadline = clock.monotonic() + TIMEOUT_S
        action: Action = machine.start()
        while not isinstance(action, Conclude):
            if clock.monotonic() > deadline:
                return CommitAnswer.RETRY
            action = self._perform(machine, action, work)
        return action.answer

    def _perform(self, machine: Resolution, action: Action, work: KafkaWork) -> Action:
        wire, name = self._connected(), (work.transactional_id, work.producer_id, work.epoch)
        match action:
            case ReadMarker():
                return machine.on(MarkerSeen(self._marker(wire, work)))
            case End():
                return machine.on(Ended(wire.commit(*name)))
            case LookAtState():
                state = wire.state(*name)
                if state == "ending":
                    self._context.clock.sleep(_PAUSE_S)
                return machine.on(StateSeen(state))
            case Conclude():
                return action

    def _marker(self, wire: Wire, work: KafkaWork) -> Marker | None:
        note = wire.note(marker_group(work.transactional_id), work.topic)
        return None if note is None else _read(note, Marker)

    def _connected(self) -> Wire:
        from tidegate.connectors.kafka._client import Cluster

        if self._wire is None:
            # It tells soon what is wrong; the other client tries for half a minute and does not know.
            Cluster(self._settings).reach()
            self._wire = Wire(self._settings, self._context.clock)
        return self._wire


def _read(note: str, kind: Callable[..., Any]) -> Any:
    try:
        return msgspec.json.decode(note, type=kind)
    except msgspec.MsgspecError:
        # Written by somebody who is not us, so it says nothing of ours.
        return None


def _decoded(committable: Committable) -> KafkaWork:
    try:
        return msgspec.msgpack.decode(committable.payload, type=KafkaWork)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"sink {committable.uid!r}: the work of {committable.describe} cannot be read ({error}); expected "
            "version 1; run the version that wrote it"
        ) from error
