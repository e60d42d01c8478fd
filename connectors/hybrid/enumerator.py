"""Enumerator of the hybrid source: assigns the splits of one stage, then, when all are read, those of the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidegate.connectors.hybrid.split import HybridSplit, name_of
from tidegate.connectors.spi import (
    EnumeratorContext,
    Source,
    Split,
    SplitEnumerator,
    SupportsDiscovery,
    SupportsHandover,
    SupportsLeftOut,
    SupportsPending,
)
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId, SplitId

__all__ = ["HybridEnumerator"]


class _State(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    stage: int
    end: bytes | None
    enumerator: bytes


@dataclass(frozen=True)
class _StageContext:
    """What the enumerator of a stage says to readers, as splits of that stage."""

    outer: EnumeratorContext[HybridSplit]
    stage: int
    end: bytes | None
    is_last: bool
    dry: set[int]
    """Readers that have read all they were assigned and asked for more."""
    promised: set[int] = field(default_factory=set)
    """Readers that get nothing more of this stage."""

    @property
    def parallelism(self) -> int:
        return self.outer.parallelism

    @property
    def owner(self) -> str:
        return self.outer.owner

    @property
    def over(self) -> bool:
        """Whether every reader has read its part of the stage."""
        return not self.is_last and len(self.dry & self.promised) == self.parallelism

    def assign(self, reader: int, splits: Sequence[Split]) -> None:
        self.dry.discard(reader)
        self.outer.assign(reader, [HybridSplit.of(self.stage, split, self.end) for split in splits])

    def no_more_splits(self, reader: int) -> None:
        self.promised.add(reader)
        if self.is_last:
            self.outer.no_more_splits(reader)

    def send_event(self, reader: int, event: bytes) -> None:
        self.outer.send_event(reader, event)


class HybridEnumerator(SplitEnumerator[HybridSplit]):
    """One enumerator at a time.

    A reader asks only when it has read all it was assigned. So one that asks and was promised that nothing follows has
    read its part of the stage, and the stage is over when all have.

    Args:
        context: How to reach the readers.
        source_of: The source of a stage, given where the stage before ended.
        stages: How many there are.
        restored: The snapshot of an earlier enumerator.

    Raises:
        StateFormatError: the snapshot was written by another version, or for more stages.
    """

    def __init__(
        self,
        context: EnumeratorContext[HybridSplit],
        source_of: Callable[[int, bytes | None], Source[Any]],
        stages: int,
        restored: bytes | None,
    ) -> None:
        self._context = context
        self._source_of = source_of
        self._stages = stages
        state = None if restored is None else _decode(restored, stages)
        self._dry: set[int] = set()
        self._open(0, None) if state is None else self._open(state.stage, state.end, state.enumerator)

    def start(self) -> None:
        """Look for the splits of the stage."""
        self._inner.start()

    def request(self, reader: int) -> None:
        """Give the reader more of the stage, or begin the next if it was the last one that had something to read.

        Raises:
            UnavailableError: the system of the next stage does not answer.
        """
        self._dry.add(reader)
        if reader not in self._stage.promised or self._stage.is_last:
            self._inner.request(reader)
        while self._stage.over:
            self._switch()

    def give_back(self, splits: Sequence[HybridSplit]) -> None:
        """Take splits of the stage back."""
        self._dry.clear()
        self._stage.promised.clear()
        self._inner.give_back([split.within(self._source) for split in splits])

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """Which stage it is, and what its enumerator holds."""
        return msgspec.msgpack.encode(
            _State(self._stage.stage, self._stage.end, self._inner.snapshot(checkpoint))
        )

    def pending(self) -> list[SplitId]:
        """What the enumerator of the stage holds, if it can tell."""
        inner = self._inner
        return (
            [name_of(self._stage.stage, each) for each in inner.pending()]
            if isinstance(inner, SupportsPending)
            else []
        )

    @property
    def discovery_interval_ms(self) -> int | None:
        """How often the enumerator of the stage wants to look; one that never does is asked again in the next."""
        inner = self._inner
        return inner.discovery_interval_ms if isinstance(inner, SupportsDiscovery) else None

    def discover(self) -> tuple[int, Any]:
        """Let the enumerator of the stage look."""
        stage, inner = self._stage.stage, self._inner
        return stage, inner.discover() if isinstance(inner, SupportsDiscovery) else None

    def discovered(self, found: tuple[int, Any]) -> None:
        """Add discovered splits, if the stage is still the same."""
        stage, what = found
        if stage == self._stage.stage and isinstance(self._inner, SupportsDiscovery):
            self._inner.discovered(what)

    def left_out(self) -> Collection[str]:
        """What the enumerator of the stage leaves out."""
        return self._inner.left_out() if isinstance(self._inner, SupportsLeftOut) else ()

    def close(self) -> None:
        """Close the enumerator of the stage."""
        self._inner.close()

    def _open(self, stage: int, end: bytes | None, restored: bytes | None = None) -> None:
        self._stage = _StageContext(self._context, stage, end, stage == self._stages - 1, self._dry)
        self._source = self._source_of(stage, end)
        self._inner: SplitEnumerator[Any] = self._source.open_enumerator(self._stage, restored)

    def _switch(self) -> None:
        before = self._inner
        end = msgspec.msgpack.encode(before.end_position()) if isinstance(before, SupportsHandover) else None
        before.close()
        self._open(self._stage.stage + 1, end)
        self._inner.start()
        for reader in sorted(self._dry):
            self._inner.request(reader)


def _decode(data: bytes, stages: int) -> _State:
    try:
        state = msgspec.msgpack.decode(data, type=_State)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"the state of a hybrid source cannot be read ({error}); expected version 1; restore an older checkpoint "
            "or run the version that wrote it"
        ) from error
    if state.stage >= stages:
        raise StateFormatError(
            f"the checkpoint was taken at stage {state.stage} of the hybrid source; got {stages} stages; keep the "
            "stages that were read and append new ones"
        )
    return state
