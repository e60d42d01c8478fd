"""Split discovery in a separate thread, so that a slow external system does not block the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tidegate.errors import TidegateError
from tidegate.failures import end_of
from tidegate.ids import OperatorUid

__all__ = ["Discovery", "DiscoveryResult", "run_discovery"]


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of one discovery, or its error; every error except `UnavailableError` fails the job."""

    uid: OperatorUid
    what: Any = None
    error: TidegateError | None = None
    attempt: int = 0
    """The attempt of the source's enumerator; results of an earlier attempt are dropped."""


def run_discovery(uid: OperatorUid, discover: Callable[[], Any], attempt: int) -> DiscoveryResult:
    """Run one discovery; returns errors instead of raising them."""
    try:
        return DiscoveryResult(uid, discover(), attempt=attempt)
    except BaseException as error:
        return DiscoveryResult(uid, error=end_of(f"source {uid!r}", error), attempt=attempt)


class Discovery:
    """Runs discoveries one after the other in its thread and passes on their results."""

    def __init__(self, tell: Callable[[DiscoveryResult], None]) -> None:
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-discovery")

    def begin(self, uid: OperatorUid, discover: Callable[[], Any], attempt: int = 0) -> None:
        """Queue a discovery behind those that are queued."""
        self._thread.submit(lambda: self._tell(run_discovery(uid, discover, attempt)))

    def close(self) -> None:
        """Wait for a running discovery and start no more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
