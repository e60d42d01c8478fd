"""Whether the retained checkpoints of a pipeline are sound: their metadata, every file they name, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidegate.backends.timeline import damage, misfits
from tidegate.errors import InternalError, StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, check
from tidegate.runtime.checkpoint.timeline import Timeline

__all__ = ["Problem", "verify"]


class Problem(msgspec.Struct, frozen=True):
    """Something wrong with a checkpoint; without an operator none of it can be read."""

    checkpoint: CheckpointId
    operator: OperatorUid | None
    file: str | None
    what: str


def verify(timeline: Timeline, number: int, *, deep: bool = False) -> Iterator[Problem]:
    """What is wrong with a retained checkpoint; `deep` also looks at every entry of its state.

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


def _damaged(timeline: Timeline, manifest: Manifest, operator: OperatorState) -> Iterator[Problem]:
    for handle in operator.keyed:
        for file, what in damage(handle, timeline.files):
            yield Problem(manifest.checkpoint, operator.uid, file, what)


def _misfits(timeline: Timeline, manifest: Manifest, operator: OperatorState) -> Iterator[Problem]:
    context = timeline.context()
    for number, handle in enumerate(operator.keyed):
        for what in misfits(handle, operator.max_parallelism, context, number):
            yield Problem(manifest.checkpoint, operator.uid, None, what)
