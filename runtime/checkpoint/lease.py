"""Lease renewal: a thread that keeps a pipeline's lease, independent of its other work.

Example:
    with startup.lease, startup.lease.told_to(workers.renew):
        settle(), abort(), sleep()  # the lease is renewed all the time
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeAlias

from tidegate.errors import InternalError, TidegateError, UnavailableError
from tidegate.runtime.checkpoint.pipeline import Pipeline

__all__ = ["LeaseKeeper", "LeaseListener"]

LeaseListener: TypeAlias = Callable[[TidegateError | None], None]
"""Called by the renewing thread after each renewal: with None, or with the error that lost the lease for good."""


class LeaseKeeper:
    """Renews the lease of an acquired pipeline from a thread of its own, for as long as it is entered.

    A storage that does not answer is asked again: until when the lease holds is `pipeline.valid_until`.

    Args:
        pipeline: Whose lease it is.
        every_s: How often it is renewed; a third of the lease, so that one or two failures cost nothing.
    """

    def __init__(self, pipeline: Pipeline, every_s: float) -> None:
        self._pipeline = pipeline
        self._every_s = every_s
        self._listener: LeaseListener | None = None
        self._lost: TidegateError | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._over.clear()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="tidegate-lease")
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    @contextlib.contextmanager
    def told_to(self, listener: LeaseListener) -> Iterator[None]:
        """Call a listener, which may not block, after each attempt to renew, and at once if the lease is lost already."""
        self._listener = listener
        try:
            if self._lost is not None:
                listener(self._lost)
            yield
        finally:
            self._listener = None

    def _keep(self) -> None:
        while not self._over.wait(self._every_s):
            self._lost = self._renewed()
            listener = self._listener
            if listener is not None:
                listener(self._lost)
            if self._lost is not None:
                return

    def _renewed(self) -> TidegateError | None:
        """Renew; why the lease is lost, if it is."""
        try:
            self._pipeline.renew()
        except UnavailableError:
            return None
        except TidegateError as error:
            return error
        except Exception as error:
            failure = InternalError(f"the lease cannot be renewed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            return failure
        return None
