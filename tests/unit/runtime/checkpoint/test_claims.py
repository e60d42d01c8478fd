"""Claims of a running job are renewed by the clock, whatever the system outside answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import until
from tidegate.clock import ManualClock
from tidegate.errors import ConfigError, InternalError, UnavailableError
from tidegate.runtime.checkpoint.claims import RENEWAL_S, Claims

HOUR_MS = int(RENEWAL_S * 1_000)


class Outside:
    """Stands in for the committers of a job; says what it is told to say."""

    def __init__(self) -> None:
        self.claimed = self.closed = 0
        self.answer: Callable[[], None] = lambda: None

    def claim(self) -> None:
        self.claimed += 1
        self.answer()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def claims(outside: Outside, clock: ManualClock) -> Claims:
    given: Any = lambda: outside  # noqa: E731  # stands in for committers
    return Claims(given, clock)


def renew(claims: Claims, outside: Outside) -> None:
    """Let a renewal that is due happen, and its result be seen."""
    before = outside.closed
    claims.tick()
    until(lambda: outside.closed > before)
    until(lambda: claims._renewal is None or claims._renewal.done())
    claims.tick()


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_claims_are_renewed_every_hour_though_nothing_else_happens(
    claims: Claims, outside: Outside, clock: ManualClock
) -> None:
    claims.tick()
    clock.advance(HOUR_MS - 1)
    claims.tick()
    assert outside.claimed == 0, "the start has claimed"

    for times in (1, 2, 3):
        clock.advance(HOUR_MS)
        renew(claims, outside)
        claims.tick()
        assert (outside.claimed, outside.closed) == (times, times)


def test_a_system_that_does_not_answer_is_asked_again_after_a_minute(
    claims: Claims, outside: Outside, clock: ManualClock
) -> None:
    outside.answer = failing(UnavailableError("no broker answers"))
    clock.advance(HOUR_MS)
    renew(claims, outside)

    clock.advance(59_999)
    claims.tick()
    assert outside.claimed == 1
    outside.answer = lambda: None
    clock.advance(1)
    renew(claims, outside)
    assert outside.claimed == 2


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (
            ConfigError("the prefix belongs to pipeline 'refunds'"),
            (ConfigError, "belongs to pipeline 'refunds'"),
        ),
        (OSError("no route"), (InternalError, "OSError: no route")),
    ],
    ids=["another pipeline's", "unforeseen"],
)
def test_a_claim_that_is_lost_fails_the_job(
    claims: Claims, outside: Outside, clock: ManualClock, raised: Exception, seen: tuple[type[Exception], str]
) -> None:
    outside.answer = failing(raised)
    clock.advance(HOUR_MS)

    with pytest.raises(seen[0], match=seen[1]):
        renew(claims, outside)
