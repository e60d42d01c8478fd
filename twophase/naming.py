"""Names of prepared and finished work in external systems; the only module that builds and parses them.

Foreign names never look like ours: a name is parsed by its full pattern, and every part that is not ours to choose
is escaped, so a pipeline called `orders` does not touch the work of `orders2`, nor `a/b` a folder.

Example:
    >>> name = OutputName("part", "9f2c", 0, "0a1b2c3d", 1, 7, ".jsonl")
    >>> name.build()
    'part-9f2c.0-0a1b2c3d-1-7.jsonl'
    >>> parse_output("part-9f2c.0-0a1b2c3d-1-7.jsonl").checkpoint
    7
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
import xxhash

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid, PipelineId

__all__ = [
    "MAX_BYTES",
    "OutputName",
    "WorkName",
    "escape",
    "owner_name",
    "parse_output",
    "parse_work",
    "tag_of",
    "unescape",
]

MAX_BYTES = 255
"""The longest name file systems allow."""

_UNSAFE = re.compile(rb"[^A-Za-z0-9_]")
_ESCAPED = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-F]{2})+", re.ASCII)
_PREFIX = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_SUFFIX = r"(?:\.[A-Za-z0-9_]+)*"
_PART = r"[A-Za-z0-9_%]+"
_NUMBER = r"0|[1-9][0-9]*"
_MORE = r"[1-9][0-9]*"
_OUTPUT = re.compile(
    rf"(?P<prefix>{_PREFIX})-(?P<lineage>{_PART})\.(?P<branch>{_NUMBER})-(?P<tag>[0-9a-f]{{8}})"
    rf"-(?P<subtask>{_NUMBER})-(?P<checkpoint>{_NUMBER})(?:-(?P<part>{_MORE}))?(?P<suffix>{_SUFFIX})",
    re.ASCII,
)
_WORK = re.compile(
    rf"(?P<lineage>{_PART})\.(?P<branch>{_NUMBER})(?:\.(?P<term>{_MORE}))?-(?P<subtask>{_NUMBER})"
    rf"-(?P<checkpoint>{_NUMBER}|open)"
    rf"-(?P<attempt>{_PART})(?:-(?P<part>{_MORE}))?\.(?P<stage>inprogress|pending)",
    re.ASCII,
)

Stage = Literal["inprogress", "pending"]


class OutputName(msgspec.Struct, frozen=True):
    """The visible name of committed work: its operator, lineage and checkpoint.

    `tag` identifies the operator of a pipeline (`tag_of`), so that sinks and pipelines may share a location; `part` tells
    the pieces of one subtask and checkpoint apart.
    """

    prefix: str
    lineage: str
    branch: int
    tag: str
    subtask: int
    checkpoint: int
    suffix: str = ""
    part: int = 0

    def build(self) -> str:
        """The name.

        Raises:
            ConfigError: prefix or suffix cannot be part of a name, or the name would be too long.
        """
        _check("prefix", self.prefix, _PREFIX)
        _check("suffix", self.suffix, _SUFFIX)
        name = (
            f"{self.prefix}-{escape(self.lineage)}.{self.branch}-{self.tag}-{self.subtask}-{self.checkpoint}"
        )
        return _short_enough(name + _more(self.part) + self.suffix, self.prefix)


class WorkName(msgspec.Struct, frozen=True):
    """The name of invisible work; `checkpoint` is None while records are still written to it.

    Attempts of one epoch differ in `attempt` and never meet, nor do the parts of one attempt. `term` is the fencing term
    of the owner under which it was made: an owner removes nothing of a newer one. Names of version 0.1 have none.
    """

    lineage: str
    branch: int
    subtask: int
    checkpoint: int | None
    attempt: str
    part: int = 0
    term: int = 0

    @property
    def stage(self) -> Stage:
        """Whether it is still written to or prepared."""
        return "inprogress" if self.checkpoint is None else "pending"

    def build(self) -> str:
        """The name."""
        checkpoint = "open" if self.checkpoint is None else self.checkpoint
        history = f"{escape(self.lineage)}.{self.branch}" + (f".{self.term}" if self.term else "")
        name = f"{history}-{self.subtask}-{checkpoint}-{escape(self.attempt)}"
        return _short_enough(f"{name}{_more(self.part)}.{self.stage}", self.attempt)


def parse_output(name: str) -> OutputName | None:
    """The parts of a name that `OutputName.build` made, None for any other."""
    match = _OUTPUT.fullmatch(name)
    lineage = match and unescape(match["lineage"])
    if match is None or lineage is None:
        return None
    return OutputName(
        prefix=match["prefix"],
        lineage=lineage,
        branch=int(match["branch"]),
        tag=match["tag"],
        subtask=int(match["subtask"]),
        checkpoint=int(match["checkpoint"]),
        suffix=match["suffix"],
        part=int(match["part"] or 0),
    )


def parse_work(name: str) -> WorkName | None:
    """The parts of a name that `WorkName.build` made, None for any other."""
    match = _WORK.fullmatch(name)
    lineage = match and unescape(match["lineage"])
    attempt = match and unescape(match["attempt"])
    if match is None or lineage is None or attempt is None:
        return None
    checkpoint = None if match["checkpoint"] == "open" else int(match["checkpoint"])
    part = int(match["part"] or 0)
    term = int(match["term"] or 0)
    work = WorkName(lineage, int(match["branch"]), int(match["subtask"]), checkpoint, attempt, part, term)
    return work if work.stage == match["stage"] else None


def owner_name(pipeline: PipelineId, uid: OperatorUid) -> str:
    """The name of everything one operator of one pipeline may remove.

    Example:
        >>> owner_name(PipelineId("jobs/orders.py"), OperatorUid("sink"))
        'jobs%2Forders%2Epy.sink'
    """
    return _short_enough(f"{escape(pipeline)}.{escape(uid)}", pipeline)


def tag_of(pipeline: PipelineId, uid: OperatorUid) -> str:
    """Eight characters that identify an operator of a pipeline in readable names."""
    return xxhash.xxh32_hexdigest(owner_name(pipeline, uid).encode())


def escape(text: str) -> str:
    """`text` with every byte but letters, digits and `_` written as `%XX`.

    Raises:
        ConfigError: `text` is empty, not valid Unicode or too long for a name.
    """
    try:
        plain = text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the name {text!r} is not valid Unicode; use another one") from error
    if not plain:
        raise ConfigError("a name is empty; expected a pipeline id, operator uid, lineage and attempt")
    return _short_enough(_UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], plain).decode(), text)


def unescape(text: str) -> str | None:
    """What `escape` was given, None if it never makes `text`."""
    if _ESCAPED.fullmatch(text) is None:
        return None
    raw = re.sub(r"%(..)", lambda match: chr(int(match[1], 16)), text).encode("latin-1")
    try:
        plain = raw.decode()
    except UnicodeDecodeError:
        return None
    return plain if escape(plain) == text else None


def _more(part: int) -> str:
    return f"-{part}" if part else ""


def _short_enough(name: str, shown: str) -> str:
    if len(name) > MAX_BYTES:
        raise ConfigError(
            f"the name {shown[:40]!r}... is too long for a file name; got {len(name)} bytes; expected at most "
            f"{MAX_BYTES}; shorten the pipeline id, operator uid or prefix"
        )
    return name


def _check(what: str, text: str, pattern: str) -> None:
    if re.fullmatch(pattern, text, re.ASCII) is None:
        raise ConfigError(
            f"file {what} {text!r} cannot be part of a file name; expected letters, digits, '_', '-' and '.', "
            f"{'not beginning with a dot' if what == 'prefix' else 'beginning with a dot'}"
        )
