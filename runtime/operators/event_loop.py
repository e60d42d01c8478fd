"""An asyncio event loop in a separate thread, for asynchronous user functions.

Every started request is answered exactly once: with a result, an exception of any kind, a cancellation
by the user's own code, or the end of the loop. Only requests that `close` cancels are not answered.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidegate.errors import UserCodeError
from tidegate.failures import called

__all__ = ["Answer", "AsyncCall", "EventLoop"]

_GRACE_S: Final = 10.0

Answer: TypeAlias = list[Any] | BaseException
"""The results of a request, or its exception."""


@dataclass(frozen=True, slots=True)
class AsyncCall:
    """A coroutine to run, and the callback for its answer.

    Args:
        run: Makes the coroutine; called in the event loop.
        answer: Takes the answer; called once, in the event loop's thread, and must not raise.
    """

    run: Callable[[], Coroutine[Any, Any, list[Any]]]
    answer: Callable[[Answer], None]


class EventLoop:
    """Runs requests in its own thread, which starts with the first request."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: dict[asyncio.Task[Answer], AsyncCall] = {}
        self._failure: UserCodeError | None = None
        """The error that every request gets once a task or callback of a user function has ended the loop."""
        self._closing = False

    def start(self, requests: Iterable[AsyncCall]) -> None:
        """Start requests; called by the owner's thread."""
        if self._loop is None:
            assert not self._closing
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), daemon=True, name="tidegate-requests"
            )
            self._thread.start()
        self._loop.call_soon_threadsafe(self._create, self._loop, list(requests))

    def call(self, callback: Callable[[], None]) -> None:
        """Call a function in the loop; it must not raise. Called by the owner's thread after requests were started."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel running requests and end the thread; called by the owner's thread, any number of times.

        Raises:
            UserCodeError: a request continues although it was cancelled; its thread keeps running.
        """
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        self._closing = True
        asyncio.run_coroutine_threadsafe(_end(loop), loop)
        thread.join(_GRACE_S)
        if thread.is_alive():
            raise UserCodeError(
                f"a request of an asynchronous function is still running {_GRACE_S:g} s after it was cancelled; expected "
                "it to end; let it pass on asyncio.CancelledError"
            )

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                loop.run_forever()
                if self._closing:
                    break
                self._fail(RuntimeError("its method stop() was called"))
            except BaseException as error:
                # SystemExit and KeyboardInterrupt of any task or callback leave the loop; `close` still needs it.
                self._fail(error)
        loop.close()

    def _fail(self, error: BaseException) -> None:
        if self._closing:
            return
        self._failure = UserCodeError(
            f"the event loop of asynchronous functions was ended by one of their tasks or callbacks: {called(error)}; "
            "expected them to return or to raise an Exception"
        )
        self._failure.__cause__ = error
        running, self._running = self._running, {}
        for request in running.values():
            request.answer(self._failure)

    def _create(self, loop: asyncio.AbstractEventLoop, requests: list[AsyncCall]) -> None:
        for request in requests:
            if self._failure is not None:
                request.answer(self._failure)
                continue
            task = loop.create_task(_ended(request))
            self._running[task] = request
            task.add_done_callback(self._answer)

    def _answer(self, task: asyncio.Task[Answer]) -> None:
        request = self._running.pop(task, None)
        if request is not None and not self._closing:
            # One that is cancelled before it began has not run at all.
            request.answer(asyncio.CancelledError() if task.cancelled() else task.result())


async def _ended(request: AsyncCall) -> Answer:
    """The answer of a request; `SystemExit` raised in its own task must not end the loop for all others."""
    try:
        return await request.run()
    except BaseException as error:
        return error


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    # User functions may have started tasks of their own.
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop.stop()
