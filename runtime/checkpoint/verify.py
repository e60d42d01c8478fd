"""Verification of retained checkpoints: metadata, files, and contents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from tidegate.backends.spi import StoredChunk
from tidegate.backends.timeline import conflicts, damage, defects
from tidegate.errors import InternalError, StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, check, unkeyed_chunks
from tidegate.runtime.checkpoint.timeline import Timeline

__all__ = ["Problem", "verify"]

_SAID: Final = 10
"""At most this many differing keys of a base are named."""


class Problem(msgspec.Struct, frozen=True):
    """Something wrong with a checkpoint; without an operator none of it can be read."""

    checkpoint: CheckpointId
    operator: OperatorUid | None
    file: str | None
    what: str


def verify(timeline: Timeline, number: int, *, deep: bool = False) -> Iterator[Problem]:
    """What is wrong with a retained checkpoint; `deep` also looks at every entry of its state.

    A base that is new since the retained checkpoint before is then compared with what that one and the log say.

    Raises:
        ConfigError: it is not retained.
    """
    checkpoint = CheckpointId(number)
    try:
        manifest = timeline.manifest(number)
        check(manifest)
    except (StateCorruptError, StateFormatError, InternalError) as error:
        yield Problem(checkpoint, None, None, str(error))
        return
    for operator in manifest.operators:
        found = list(_damaged(timeline, manifest, operator))
        yield from found
        if deep and not found:
            yield from _misfits(timeline, manifest, operator)
            yield from islice(_unlike(timeline, manifest, operator), _SAID)


def _damaged(timeline: Timeline, manifest: Manifest, operator: OperatorState) -> Iterator[Problem]:
    for handle in operator.keyed:
        for file, what in damage(handle, timeline.files):
            yield Problem(manifest.checkpoint, operator.uid, file, what)
    for chunk in unkeyed_chunks(operator):
        try:
            timeline.files.fetch(chunk)
        except StateCorruptError as error:
            name = chunk.name if isinstance(chunk, StoredChunk) else None
            yield Problem(manifest.checkpoint, operator.uid, name, str(error))


def _misfits(timeline: Timeline, manifest: Manifest, operator: OperatorState) -> Iterator[Problem]:
    context = timeline.context()
    for number, handle in enumerate(operator.keyed):
        for what in defects(handle, operator.max_parallelism, context, number):
            yield Problem(manifest.checkpoint, operator.uid, None, what)


def _unlike(timeline: Timeline, manifest: Manifest, operator: OperatorState) -> Iterator[Problem]:
    older = [each.checkpoint for each in timeline.record.retained if each.checkpoint < manifest.checkpoint]
    try:
        before = timeline.manifest(older[-1]).operator(operator.uid) if older else None
    except StateCorruptError:
        return  # told where that checkpoint itself is verified
    context = timeline.context()
    for number, handle in enumerate(before.keyed if before is not None else ()):
        if any(damage(handle, timeline.files)):
            continue
        for later in operator.keyed:
            for what in conflicts(handle, later, context, number):
                yield Problem(manifest.checkpoint, operator.uid, None, what)
