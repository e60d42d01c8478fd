"""Transactions that are committed together, by a broker that is made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from tidegate import faults
from tidegate.clock import ManualClock
from tidegate.connectors.kafka.outcome import Marker
from tidegate.connectors.kafka.pool import marker_group
from tidegate.connectors.kafka.producers import Key
from tidegate.connectors.kafka.transactions import KafkaCommitter
from tidegate.connectors.kafka.writer import KafkaWork
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import CheckpointId, LineageId, OperatorUid, PipelineId
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, Retry

UNKNOWN_TO = 48


class Broker:
    """Transactions that wait for their end, by id; stands in for the connection. Notes what is asked together."""

    def __init__(self, *prepared: KafkaWork) -> None:
        self.open = {work.key: work for work in prepared}
        self.markers: dict[str, str] = {}
        self.together: list[int] = []
        self.away: set[str] = set()
        self.forbidden: set[str] = set()

    def notes(self, places: Mapping[str, str]) -> dict[str, str | None]:
        self._reach([group.removesuffix(".tidegate") for group in places])
        return {group: self.markers.get(group) for group in places}

    def commit(self, transactions: Sequence[Key]) -> list[int]:
        self._reach([key[0] for key in transactions])
        self.together.append(len(transactions))
        return [self._end(key) for key in transactions]

    def states(self, transactions: Sequence[Key]) -> list[str]:
        return ["closed"] * len(transactions)

    def _end(self, key: Key) -> int:
        work = self.open.pop(key, None)
        if work is None:
            return UNKNOWN_TO
        self.markers[marker_group(key[0])] = msgspec.json.encode(work.marker).decode()
        return 0

    def _reach(self, ids: Sequence[str]) -> None:
        if self.away.intersection(ids):
            raise UnavailableError("a coordinator does not answer")
        if self.forbidden.intersection(ids):
            raise ConfigError("kafka sink: not authorized to write under the transactional id")


def works(count: int) -> list[KafkaWork]:
    marker = Marker("lineage", 0, 7, "attempt")
    return [KafkaWork(f"totals-{number}-0", number, 3, 1, "totals", marker, 0) for number in range(count)]


def committables(some: Sequence[KafkaWork]) -> list[Committable]:
    return [
        Committable(
            OperatorUid("sink"), number, CheckpointId(7), msgspec.msgpack.encode(work), "a transaction", 1
        )
        for number, work in enumerate(some)
    ]


def committer_at(broker: Broker) -> KafkaCommitter:
    context = CommitterContext(PipelineId("job"), OperatorUid("sink"), LineageId("lineage"), ManualClock())
    committer = KafkaCommitter({}, "totals", "totals", False, context)
    committer._wire = broker  # type: ignore[assignment]  # stands in for it
    return committer


def test_more_and_more_transactions_are_committed_together() -> None:
    broker = Broker(*works(100))

    answers = committer_at(broker).commit(committables(works(100)))

    assert answers == [CommitAnswer.COMMITTED] * 100
    assert broker.together == [1, 2, 4, 8, 16, 32, 32, 5]


def test_each_has_its_own_answer() -> None:
    given = works(4)
    broker = Broker(given[0], given[3])
    broker.markers[marker_group(given[1].transactional_id)] = msgspec.json.encode(given[1].marker).decode()

    assert committer_at(broker).commit(committables(given)) == [
        CommitAnswer.COMMITTED,
        CommitAnswer.ALREADY_COMMITTED,
        CommitAnswer.ABORTED,
        CommitAnswer.COMMITTED,
    ]


def test_an_id_is_asked_about_once_at_a_time() -> None:
    first, *rest = works(3)
    broker = Broker(first, *rest)

    answers = committer_at(broker).commit(committables([first, *rest, *rest]))

    assert answers == [CommitAnswer.COMMITTED] * 3 + [CommitAnswer.ALREADY_COMMITTED] * 2


def test_who_has_another_coordinator_does_not_wait_for_one_that_is_away() -> None:
    broker = Broker(*works(7))
    broker.away = {"totals-4-0"}

    answers = committer_at(broker).commit(committables(works(7)))

    assert (
        answers
        == [CommitAnswer.COMMITTED] * 4
        + [Retry("a coordinator does not answer")]
        + [CommitAnswer.COMMITTED] * 2
    )


def test_what_an_acl_forbids_is_tried_again_with_the_reason() -> None:
    broker = Broker(*works(3))
    broker.forbidden = {"totals-1-0"}
    committer = committer_at(broker)

    assert committer.commit(committables(works(3))) == [
        CommitAnswer.COMMITTED,
        Retry("kafka sink: not authorized to write under the transactional id"),
        CommitAnswer.COMMITTED,
    ]

    broker.forbidden.clear()
    assert committer.commit(committables(works(3)[1:2])) == [CommitAnswer.COMMITTED]


def test_a_crash_between_two_leaves_the_rest_prepared(tmp_path: Path) -> None:
    broker = Broker(*works(4))
    committer = committer_at(broker)
    faults.arm(faults.parse("commit.between!raise"), "test", tmp_path / "witnesses")
    try:
        with pytest.raises(RuntimeError, match=r"injected at commit\.between"):
            committer.commit(committables(works(4)))
    finally:
        faults.disarm()

    assert len(broker.open) == 3
    done = [CommitAnswer.ALREADY_COMMITTED, *[CommitAnswer.COMMITTED] * 3]
    assert committer.commit(committables(works(4))) == done
