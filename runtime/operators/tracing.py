"""Where records come from, carried along: for state that says of every change which record made it.

A traced chain takes its records one by one. What leaves it meanwhile has the origin of the record at hand, and is
held until the batch is done, or until time moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.elements import Batch, RecordOrigin, concat
from tidegate.ids import OperatorUid

__all__ = ["Tracer"]

Taker = Callable[[Batch], None]


class Tracer:
    """The origin of the record that a chain has in hand, if it has one; `uid` is the chain's first step."""

    def __init__(self, uid: OperatorUid) -> None:
        self.origin: RecordOrigin | None = None
        self._uid = uid
        self._held: list[tuple[Taker, list[Batch]]] = []

    def one_by_one(self, batch: Batch) -> Iterator[Batch]:
        """The records of a batch, each alone, while its origin is the one at hand."""
        for place, origin in enumerate(self._origins(batch)):
            self.origin = origin
            yield batch.part(slice(place, place + 1))
        self.origin = None

    def holding(self, taker: Taker, traced: bool) -> Taker:
        """A taker that holds what it is given until it is told to let go; `traced`: with its origins."""
        held: list[Batch] = []
        self._held.append((taker, held))

        def hold(batch: Batch) -> None:
            batch.origins = [self.origin] * len(batch) if traced else None
            held.append(batch)

        return hold

    def let_go(self) -> None:
        """Pass on what is held, in as few batches as there are takers."""
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
