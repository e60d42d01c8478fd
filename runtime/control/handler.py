"""Command handler of a run: executes commands and keeps their results by trigger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tidegate.clock import new_id
from tidegate.errors import ConfigError, InternalError, TidegateError, UnavailableError
from tidegate.runtime.client import JobClient
from tidegate.runtime.control import protocol
from tidegate.runtime.control.restarting import RESTARTING
from tidegate.runtime.observe.run_snapshot import RunSnapshot
from tidegate.runtime.result import JobResult

__all__ = ["CommandHandler"]


class CommandHandler:
    """Handles the requests to one run; may be called by several threads."""

    def __init__(
        self, client: JobClient, owns: Callable[[], bool], latest: Callable[[], RunSnapshot]
    ) -> None:
        self._client = client
        self._owns = owns
        self._latest = latest
        self._triggers: dict[str, tuple[Future[Any], ...]] = {}
        self._lock = threading.Lock()

    def answer(self, question: protocol.Question) -> protocol.Answer:
        """Answer a request; only a request for an outcome blocks."""
        try:
            match question:
                case protocol.Look():
                    return protocol.Seen(self._latest())
                case protocol.Outcome():
                    return self._outcome(question.trigger)
                case protocol.Hello():
                    return protocol.Done()
                case _:
                    return self._triggered(self._started(question))
        except TidegateError as error:
            return protocol.Refused(type(error).__name__, str(error))

    def _started(
        self, command: protocol.Savepoint | protocol.Stop | protocol.Cancel | protocol.Restart
    ) -> tuple[Future[Any], ...]:
        """Start a command and return the futures to wait for, in order."""
        if not self._owns():
            raise UnavailableError(
                "the job does not own its pipeline yet: it is starting, or is a standby; try again when it runs, "
                "or end its process"
            )
        client = self._client
        match command:
            case protocol.Savepoint():
                return (client.trigger_savepoint(command.directory, format_type=command.format_type),)
            case protocol.Stop() if command.savepoint:
                taken = client.stop_with_savepoint(
                    command.drain,
                    command.directory,
                    format_type=command.format_type,
                    for_good=command.for_good,
                )
                return taken, client.gone() if command.for_good else client.get_job_execution_result()
            case protocol.Stop():
                return (client.stop(drain=command.drain),)
            case protocol.Cancel():
                return (client.cancel(),)
            case protocol.Restart():
                RESTARTING.ask()
                return (client.stop(),)

    def _triggered(self, waited_for: tuple[Future[Any], ...]) -> protocol.Triggered:
        trigger = new_id(8)
        with self._lock:
            self._triggers[trigger] = waited_for
        return protocol.Triggered(trigger)

    def _outcome(self, trigger: str) -> protocol.Answer:
        with self._lock:
            waited_for = self._triggers.get(trigger)
        if waited_for is None:
            raise ConfigError(
                f"unknown trigger {trigger!r}; expected one that a command to this run returned"
            )
        try:
            results = [each.result() for each in waited_for]
        except TidegateError:
            raise
        except BaseException as error:
            raise InternalError(f"the run ended with {type(error).__name__}: {error}") from error
        return protocol.Done(
            place=next((each for each in results if isinstance(each, str)), None),
            state=next((each.state for each in results if isinstance(each, JobResult)), None),
        )
