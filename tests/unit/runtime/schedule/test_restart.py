from __future__ import annotations

import pytest

from tidegate import errors
from tidegate.runtime.schedule.restart import FixedDelay, worth_restarting


def test_after_the_last_attempt_there_is_no_restart() -> None:
    strategy = FixedDelay(attempts=2, delay_ms=500)

    assert [strategy.failed() for _ in range(4)] == [500, 500, None, None]


def test_progress_gives_all_attempts_back() -> None:
    strategy = FixedDelay(attempts=1, delay_ms=5)
    strategy.failed()
    strategy.progressed()

    assert [strategy.failed(), strategy.failed()] == [5, None]


def test_without_attempts_the_first_failure_is_the_end() -> None:
    assert FixedDelay(attempts=0, delay_ms=5).failed() is None


MENDABLE = {
    "InternalError",
    "JobFailedError",
    "RecordError",
    "TidegateError",
    "UnavailableError",
    "UserCodeError",
}


@pytest.mark.parametrize("name", errors.__all__)
def test_what_a_restart_cannot_mend_is_not_tried_again(name: str) -> None:
    assert worth_restarting(getattr(errors, name)("x")) == (name in MENDABLE)
