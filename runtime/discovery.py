"""Looks for more splits while a job runs, in a thread of its own: a system that does not answer holds nobody up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tidegate.errors import InternalError, TidegateError, UnavailableError
from tidegate.ids import OperatorUid

__all__ = ["Discovery", "Found"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at an outer system brought, or the error that ends the job."""

    uid: OperatorUid
    what: Any = None
    error: TidegateError | None = None
    attempt: int = 0
    """Of the source's enumerator; what an earlier one looked for is not taken by its successor."""


class Discovery:
    """Does one look after the other and tells what each brings; a system that is away is asked again later."""

    def __init__(self, tell: Callable[[Found], None]) -> None:
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-discovery")

    def begin(self, uid: OperatorUid, look: Callable[[], Any], attempt: int = 0) -> None:
        """Look, when the looks before it are over."""
        self._thread.submit(self._look, uid, look, attempt)

    def close(self) -> None:
        """Wait for a look that has begun, and begin no more."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _look(self, uid: OperatorUid, look: Callable[[], Any], attempt: int) -> None:
        try:
            self._tell(Found(uid, look(), attempt=attempt))
        except UnavailableError:
            pass
        except TidegateError as error:
            self._tell(Found(uid, error=error, attempt=attempt))
        except Exception as error:
            wrong = InternalError(f"source {uid!r}: {type(error).__name__}: {error}")
            self._tell(Found(uid, error=wrong, attempt=attempt))
