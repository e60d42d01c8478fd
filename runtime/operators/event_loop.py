"""One asyncio loop in a thread of its own, for what user functions await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable

__all__ = ["EventLoop"]


class EventLoop:
    """Runs coroutines beside the thread that owns it; the thread starts with the first of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutines: Iterable[Callable[[], Coroutine[None, None, None]]]) -> None:
        """Start coroutines, which must not raise; called by the owner."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, daemon=True, name="tidegate-requests"
            )
            self._thread.start()
        self._loop.call_soon_threadsafe(self._create, list(coroutines))

    def call(self, callback: Callable[[], None]) -> None:
        """Let the loop call something, which must not raise; called by the owner once coroutines were started."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel what is under way and end the thread; called by the owner, any number of times."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def _create(self, coroutines: list[Callable[[], Coroutine[None, None, None]]]) -> None:
        assert self._loop is not None
        for coroutine in coroutines:
            task = self._loop.create_task(coroutine())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _cancel(self) -> None:
        # User functions may have started tasks of their own.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
