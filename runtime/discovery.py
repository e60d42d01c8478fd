"""Split discovery in a separate thread, so that a slow external system does not block the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tidegate.errors import TidegateError
from tidegate.failures import end_of
from tidegate.ids import OperatorUid

__all__ = ["Discovery", "Found", "look"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at an outer system brought, or why it failed; only an `UnavailableError` does not end the job."""

    uid: OperatorUid
    what: Any = None
    error: TidegateError | None = None
    attempt: int = 0
    """The attempt of the source's enumerator; the results of an earlier one are dropped."""


def look(uid: OperatorUid, discover: Callable[[], Any], attempt: int) -> Found:
    """Look once; raises nothing."""
    try:
        return Found(uid, discover(), attempt=attempt)
    except BaseException as error:
        return Found(uid, error=end_of(f"source {uid!r}", error), attempt=attempt)


class Discovery:
    """Does one look after the other and tells what each brings."""

    def __init__(self, tell: Callable[[Found], None]) -> None:
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-discovery")

    def begin(self, uid: OperatorUid, discover: Callable[[], Any], attempt: int = 0) -> None:
        """Look, when the looks before it are over."""
        self._thread.submit(lambda: self._tell(look(uid, discover, attempt)))

    def close(self) -> None:
        """Wait for a look that has begun, and begin no more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
