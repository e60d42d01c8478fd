"""Control protocol of a run: one JSON object per line, a request and then its answer.

A command is answered with a trigger at once; asking for the outcome of the trigger waits until there is one.

Example:
    >>> encode(Stop(savepoint=True, directory="/backups"))
    b'{"do":"stop","savepoint":true,"directory":"/backups"}\\n'
    >>> decode_question(b'{"do":"outcome","trigger":"3f2a"}')
    Outcome(trigger='3f2a')
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidegate.errors import ConfigError, InternalError
from tidegate.runtime.observe.run_snapshot import RunSnapshot, State
from tidegate.runtime.options import SavepointFormat

__all__ = [
    "Answer",
    "Cancel",
    "Done",
    "Hello",
    "Look",
    "Outcome",
    "Question",
    "Refused",
    "Restart",
    "Savepoint",
    "Seen",
    "Stop",
    "Triggered",
    "decode_answer",
    "decode_question",
    "encode",
]


class _Word(msgspec.Struct, frozen=True, tag_field="do", tag=str.lower, omit_defaults=True):
    pass


class Hello(_Word, frozen=True):
    """Comes first, with what only the owner of the run can know."""

    token: str


class Look(_Word, frozen=True):
    """Request the state of the run."""


class Savepoint(_Word, frozen=True):
    """Take a savepoint below the directory, or the configured one; the job keeps running."""

    directory: str | None = None
    format_type: SavepointFormat = "canonical"


class Stop(_Word, frozen=True):
    """Take a final checkpoint and end; options: with a savepoint, drained, or as a cancellation (`for_good`)."""

    savepoint: bool = False
    directory: str | None = None
    format_type: SavepointFormat = "canonical"
    drain: bool = False
    for_good: bool = False


class Cancel(_Word, frozen=True):
    """End without another checkpoint."""


class Restart(_Word, frozen=True):
    """Stop, and start the program again in the same process."""


class Outcome(_Word, frozen=True):
    """Request the outcome of a command."""

    trigger: str


Question: TypeAlias = Hello | Look | Savepoint | Stop | Cancel | Restart | Outcome


class Seen(_Word, frozen=True):
    """The state of the run."""

    snapshot: RunSnapshot


class Triggered(_Word, frozen=True):
    """The command was accepted."""

    trigger: str


class Done(_Word, frozen=True):
    """The command is completed, with the place of a savepoint and the final state of a job that ended."""

    place: str | None = None
    state: State | None = None


class Refused(_Word, frozen=True):
    """The command was refused or failed, with the name and text of the error."""

    error: str
    text: str


Answer: TypeAlias = Seen | Triggered | Done | Refused


def encode(word: Question | Answer) -> bytes:
    """As a line."""
    return msgspec.json.encode(word) + b"\n"


def decode_question(line: bytes) -> Question:
    """Decode a request.

    Raises:
        ConfigError: the request is unknown; a program of another version may have sent it.
    """
    try:
        question: Question = msgspec.json.decode(line, type=Question)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"unknown request: {error}; the versions differ; use the version of tidegate that runs the job"
        ) from error
    return question


def decode_answer(line: bytes) -> Answer:
    """Decode an answer of a run.

    Raises:
        InternalError: the answer is unknown.
    """
    try:
        answer: Answer = msgspec.json.decode(line, type=Answer)
    except msgspec.DecodeError as error:
        raise InternalError(f"unknown answer of the run: {error}; the versions differ") from error
    return answer
