"""Control client: sends commands to a run in another process."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Final, Self

from tidegate import errors
from tidegate.errors import ConfigError, TidegateError, UnavailableError
from tidegate.runtime.control import protocol
from tidegate.runtime.control.jobs import Job
from tidegate.runtime.observe.run_snapshot import RunSnapshot

__all__ = ["ControlClient"]

_PATIENCE_S: Final = 10.0


class ControlClient:
    """Speaks to one run. To be closed, or used with `with`.

    Raises:
        UnavailableError: the run has ended, or does not answer.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(_PATIENCE_S)
            self._socket.connect(job.socket)
        except OSError as error:
            self._socket.close()
            raise UnavailableError(
                f"job {job.run} cannot be reached: {error}; it may have ended just now"
            ) from error
        self._lines = self._socket.makefile("rb")
        try:
            self._ask(protocol.Hello(job.token))
        except TidegateError:
            self.close()
            raise

    def look(self) -> RunSnapshot:
        """The state of the run; raises as the class does."""
        answer = self._ask(protocol.Look())
        assert isinstance(answer, protocol.Seen)
        return answer.snapshot

    def trigger(self, command: protocol.Question) -> str:
        """Send a command and return its trigger.

        Raises:
            TidegateError: the run refused it.
            UnavailableError: the run has ended, or does not answer.
        """
        answer = self._ask(command)
        assert isinstance(answer, protocol.Triggered)
        return answer.trigger

    def outcome(self, trigger: str) -> protocol.Done:
        """Wait until a command is completed.

        Raises:
            TidegateError: it failed.
            UnavailableError: the run ended without an answer.
        """
        self._socket.settimeout(None)
        answer = self._ask(protocol.Outcome(trigger))
        self._socket.settimeout(_PATIENCE_S)
        assert isinstance(answer, protocol.Done)
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, question: protocol.Question) -> protocol.Answer:
        try:
            self._socket.sendall(protocol.encode(question))
            line = self._lines.readline()
        except OSError as error:
            raise UnavailableError(f"job {self._job.run} does not answer: {error}") from error
        if not line:
            raise UnavailableError(f"job {self._job.run} ended before it answered")
        answer = protocol.decode_answer(line)
        if isinstance(answer, protocol.Refused):
            raise _error(answer)
        return answer


def _error(refused: protocol.Refused) -> TidegateError:
    cls = getattr(errors, refused.error, None)
    known = isinstance(cls, type) and issubclass(cls, TidegateError)
    return cls(refused.text) if known and cls is not None else ConfigError(refused.text)
