"""Looking for more splits while a job runs."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegate.errors import ConfigError, InternalError, TidegateError, UnavailableError, UserCodeError
from tidegate.ids import OperatorUid
from tidegate.runtime.discovery import Discovery, DiscoveryResult

UID = OperatorUid("source")


def failing(error: BaseException) -> Callable[[], Any]:
    def look() -> Any:
        raise error

    return look


@pytest.fixture
def told() -> queue.SimpleQueue[DiscoveryResult]:
    return queue.SimpleQueue()


@pytest.fixture
def discovery(told: queue.SimpleQueue[DiscoveryResult]) -> Iterator[Discovery]:
    discovery = Discovery(told.put)
    yield discovery
    discovery.close()


def test_what_looks_bring_is_told_in_their_order(
    discovery: Discovery, told: queue.SimpleQueue[DiscoveryResult]
) -> None:
    for number in range(3):
        discovery.begin(UID, lambda number=number: number)  # type: ignore[misc] # bound per look
    assert [told.get(timeout=10) for _ in range(3)] == [DiscoveryResult(UID, number) for number in range(3)]


def test_a_system_that_is_away_is_told_and_no_reason_to_stop(
    discovery: Discovery, told: queue.SimpleQueue[DiscoveryResult]
) -> None:
    discovery.begin(UID, failing(UnavailableError("away")))
    discovery.begin(UID, lambda: "back")
    assert str(told.get(timeout=10).error) == "away"
    assert told.get(timeout=10).what == "back"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ConfigError("gone"), ConfigError, "gone"),
        (ValueError("odd"), InternalError, "source 'source': ValueError: odd"),
        (
            SystemExit(3),
            UserCodeError,
            "source 'source' failed in user or connector code: SystemExit: 3",
        ),
    ],
    ids=["its own", "any other", "exit"],
)
def test_any_other_error_is_told(
    discovery: Discovery,
    told: queue.SimpleQueue[DiscoveryResult],
    error: BaseException,
    kind: type[TidegateError],
    words: str,
) -> None:
    discovery.begin(UID, failing(error))
    found = told.get(timeout=10).error
    assert (type(found), str(found)) == (kind, words)
