"""Resource tracking of conformance clauses: everything is closed at the end of a clause, and its threads must end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

__all__ = ["closing_all", "opened"]

_END_S: Final = 10.0
"""How long a thread may take to end, on a busy machine."""


class Closable(Protocol):
    """A resource that must be closed."""

    def close(self) -> None:
        """Release all resources. Idempotent."""
        ...


_scopes: list[list[Closable]] = []


def opened(thing: Closable) -> None:
    """Close `thing` at the end of the running clause, if there is one."""
    if _scopes:
        _scopes[-1].append(thing)


@contextmanager
def closing_all() -> Iterator[None]:
    """Close all resources opened inside, as the end of a process does, and check that their threads have ended.

    Raises:
        AssertionError: a thread started inside still runs.
    """
    before = set(threading.enumerate())
    _scopes.append([])
    try:
        yield
    finally:
        for thing in _scopes.pop():
            with contextlib.suppress(Exception):  # clauses that call close themselves test its errors
                thing.close()
    begun = [thread for thread in threading.enumerate() if thread not in before]
    for thread in begun:
        thread.join(_END_S)
    left = [thread.name for thread in begun if thread.is_alive()]
    assert not left, (
        f"threads still run {_END_S:g} s after everything was closed; got {left}; expected none; stop them in "
        "close of the reader, the enumerator, the writer or the committer"
    )
