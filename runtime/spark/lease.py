"""Keeps a pipeline's lease while an epoch or the start of Spark takes its time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tidegate.errors import FencedError, UnavailableError
from tidegate.runtime.checkpoint.pipeline import Pipeline

__all__ = ["renewing"]


@contextlib.contextmanager
def renewing(pipeline: Pipeline, every_s: float) -> Iterator[None]:
    """Renew the lease of an acquired pipeline in the background."""
    over = threading.Event()

    def keep() -> None:
        # Who has lost the lease learns it when it decides: that is refused, and ends the run.
        with contextlib.suppress(FencedError):
            while not over.wait(every_s):
                with contextlib.suppress(UnavailableError):
                    pipeline.renew()

    thread = threading.Thread(target=keep, daemon=True, name="tidegate-lease")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
