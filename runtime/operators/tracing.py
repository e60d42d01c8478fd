"""Origins of records, passed along a chain: for state logs that name the record of every change.

A traced chain processes records one by one. Its output has the origin of the current record, and is held until the
batch is done, or until event time advances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.elements import Batch, RecordOrigin, concat
from tidegate.ids import OperatorUid

__all__ = ["Tracer"]

Taker = Callable[[Batch], None]


class Tracer:
    """The origin of the current record of a chain; `uid` is the chain's first step."""

    def __init__(self, uid: OperatorUid) -> None:
        self.origin: RecordOrigin | None = None
        self._uid = uid
        self._held: list[tuple[Taker, list[Batch]]] = []

    def one_by_one(self, batch: Batch) -> Iterator[Batch]:
        """The records of a batch one by one; the origin of each is current until the next."""
        for place, origin in enumerate(self._origins(batch)):
            self.origin = origin
            yield batch.part(slice(place, place + 1))
        self.origin = None

    def holding(self, taker: Taker, traced: bool) -> Taker:
        """Buffers output until it is flushed; `traced`: with origins."""
        held: list[Batch] = []
        self._held.append((taker, held))

        def hold(batch: Batch) -> None:
            batch.origins = [self.origin] * len(batch) if traced else None
            held.append(batch)

        return hold

    def let_go(self) -> None:
        """Flush the buffers, with one batch per receiver."""
        for taker, held in self._held:
            if held:
                together = list(concat(held))
                held.clear()
                for batch in together:
                    taker(batch)

    def _origins(self, batch: Batch) -> list[RecordOrigin | None]:
        if batch.origins is not None:
            return batch.origins
        if batch.origin is None:
            return [None] * len(batch)
        split = batch.origin.split
        return [RecordOrigin(self._uid, split, position) for position in batch.origin.positions]
