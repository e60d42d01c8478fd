"""Claim file of an output directory: it names the owner of the hidden files of one operator.

Pipelines with the same id and different checkpoint storages share the name of their hidden folder. Neither knows what
the other has decided, so only one of them may use the folder: the one that the note names. The note stays when that
pipeline is idle, stopped or finished.
"""

from __future__ import annotations

import msgspec

from tidegate.connectors.base.output_place import CommitterStore
from tidegate.errors import ConfigError
from tidegate.twophase.spi import CommitterContext

__all__ = ["Claim", "ensure_claim"]

_NOTE = "claim"
"""Not the name of any work, so `abort_except` leaves it."""


class Claim(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """Who uses a hidden folder; `v` versions the encoding."""

    pipeline: str
    uid: str
    home: str
    """The URL of the checkpoint storage that holds the pipeline's lease."""


def ensure_claim(place: CommitterStore, context: CommitterContext, *, take_over: bool) -> None:
    """Claim a place for the pipeline, or find that it has claimed it already. Nothing else is changed.

    A pipeline without a home is known to this run alone: its id is unique, and it claims nothing.

    Raises:
        ConfigError: the place is claimed by another pipeline, or this OS user cannot read or write there.
        UnavailableError: the place cannot be read or written now.
    """
    if not context.home:
        return
    mine = Claim(context.pipeline, context.uid, context.home)
    text = msgspec.json.encode(mine)
    try:
        found = _existing(place)
        if found is None:
            found = place.write_first_note(_NOTE, text)
        if found == text or _decoded(found) == mine:
            return
        if not take_over:
            raise _refusal(place, mine, found)
        place.write_note(_NOTE, text)
    except OSError as error:
        raise place.translate_error(error) from error


def _existing(place: CommitterStore) -> bytes | None:
    try:
        return place.note(_NOTE)
    except PermissionError as error:
        raise ConfigError(
            f"the claim of output {place.display_name('')!r} cannot be read ({error}); another OS user wrote it; run as "
            "that user, grant this user read and write permission, or set another directory"
        ) from error


def _refusal(place: CommitterStore, mine: Claim, found: bytes) -> ConfigError:
    output, claim = place.display_name(""), _decoded(found)
    if claim is None:
        return ConfigError(
            f"output {output!r}: the claim on the hidden files of pipeline {mine.pipeline!r}, operator "
            f"{mine.uid!r}, cannot be read (got {found[:80]!r}; expected version 1); run the version of tidegate "
            "that wrote it; or, if no other pipeline uses these files, start with --take-over"
        )
    return ConfigError(
        f"output {output!r}: the hidden files of pipeline {claim.pipeline!r}, operator {claim.uid!r}, are claimed "
        f"by a pipeline of the same name with checkpoints in {claim.home}; got checkpoints in {mine.home}; use "
        "those checkpoints, another pipeline.id or another directory; or, if that pipeline will not run again or "
        "its checkpoints were moved here, start with --take-over"
    )


def _decoded(text: bytes) -> Claim | None:
    try:
        return msgspec.json.decode(text, type=Claim)
    except msgspec.MsgspecError:
        return None
