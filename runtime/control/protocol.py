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
    """How is the run doing?"""


class Savepoint(_Word, frozen=True):
    """Take a savepoint and go on; below the directory, or where the run's settings say."""

    directory: str | None = None
    format_type: SavepointFormat = "canonical"


class Stop(_Word, frozen=True):
    """Take a last checkpoint and end; with a savepoint, with event time at its end, or for good as if cancelled."""

    savepoint: bool = False
    directory: str | None = None
    format_type: SavepointFormat = "canonical"
    drain: bool = False
    for_good: bool = False


class Cancel(_Word, frozen=True):
    """End without another checkpoint."""


class Restart(_Word, frozen=True):
    """Stop, and start the program anew in the same process."""


class Outcome(_Word, frozen=True):
    """What became of a command?"""

    trigger: str


Question: TypeAlias = Hello | Look | Savepoint | Stop | Cancel | Restart | Outcome


class Seen(_Word, frozen=True):
    """The run as it is."""

    snapshot: RunSnapshot


class Triggered(_Word, frozen=True):
    """The command is on its way."""

    trigger: str


class Done(_Word, frozen=True):
    """It was carried out; a savepoint is in this place, and the job ended in this state, if it did."""

    place: str | None = None
    state: State | None = None


class Refused(_Word, frozen=True):
    """It was not, or came to nothing; an error of ours by name and text."""

    error: str
    text: str


Answer: TypeAlias = Seen | Triggered | Done | Refused


def encode(word: Question | Answer) -> bytes:
    """As a line."""
    return msgspec.json.encode(word) + b"\n"


def decode_question(line: bytes) -> Question:
    """What somebody asks.

    Raises:
        ConfigError: it is no question; a program of another version may have sent it.
    """
    try:
        question: Question = msgspec.json.decode(line, type=Question)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"unknown request: {error}; the versions differ; use the version of tidegate that runs the job"
        ) from error
    return question


def decode_answer(line: bytes) -> Answer:
    """What a run answers.

    Raises:
        InternalError: it is no answer.
    """
    try:
        answer: Answer = msgspec.json.decode(line, type=Answer)
    except msgspec.DecodeError as error:
        raise InternalError(f"unknown answer of the run: {error}; the versions differ") from error
    return answer
