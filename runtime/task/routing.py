"""Routing: selects the receivers of records in an exchange, with one router for each kind of partitioning.

A router splits a batch into one batch for each receiver that gets records; the order of records is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from tidegate.arrow_rows import ArrowRows
from tidegate.elements import Batch
from tidegate.errors import ConfigError, InternalError
from tidegate.failures import failure_of
from tidegate.ids import OperatorUid
from tidegate.keys import canonical_batch, key_groups
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Rebalance,
    Rescale,
    Shuffle,
)
from tidegate.runtime.operators.failure import show
from tidegate.runtime.stream.key_selectors import FieldSelector
from tidegate.serde import isolate

__all__ = ["Route", "router"]

Route: TypeAlias = Callable[[Batch], list[tuple[int, Batch]]]

_KNOWN_KEYS: Final = 65_536
"""How many keys a router caches with their receivers."""


def router(edge: JobEdge, index: int) -> Route:
    """The router for the output of subtask `index` over `edge`."""
    targets = edge.target_parallelism
    match edge.partition:
        case Forward():
            return lambda batch: [(index, batch)]
        case Global():
            return lambda batch: [(0, batch)]
        case Broadcast():
            return lambda batch: [(target, _copied(batch)) for target in range(targets)]
        case Rebalance():
            return _RoundRobin(range(targets), index % targets)
        case Rescale():
            near = edge.reached_from(index)
            return _RoundRobin(near, index % len(near))
        case Shuffle():
            # Seeded by edge and subtask, so that two runs of a program distribute records the same way.
            chance = random.Random(f"{edge.name} {index}")
            return lambda batch: deal(batch, [chance.randrange(targets) for _ in range(len(batch))], targets)
        case Custom():
            return _ByPartitioner(edge.partition, edge.node, targets)
        case Hash():
            return _ByKey(edge.partition, edge)
        case other:
            raise InternalError(f"no router is known for {other!r}")


def deal(batch: Batch, chosen: Sequence[int], targets: int) -> list[tuple[int, Batch]]:
    """Split a batch by the chosen receiver of each record."""
    if len(batch) == 1:
        return [(chosen[0], batch)]
    shares: list[list[int]] = [[] for _ in range(targets)]
    for place, target in enumerate(chosen):
        shares[target].append(place)
    return [(target, batch.select(places)) for target, places in enumerate(shares) if places]


def _copied(batch: Batch) -> Batch:
    """A copy of a batch for a receiver that may change its records."""
    if isinstance(batch.values, ArrowRows):
        return batch.with_values(batch.values.unshared())
    return batch.with_values([isolate(value) for value in batch.values])


class _RoundRobin:
    """Round-robin over a range of receivers."""

    def __init__(self, targets: range, turn: int) -> None:
        self._targets = targets
        self._turn = turn

    def __call__(self, batch: Batch) -> list[tuple[int, Batch]]:
        count = len(self._targets)
        shares = []
        for offset in range(min(count, len(batch))):
            picked = slice(offset, None, count)
            target = self._targets[(self._turn + offset) % count]
            shares.append((target, batch.part(picked)))
        self._turn = (self._turn + len(batch)) % count
        return shares


class _ByKey:
    """Sends records to the owner of the key group."""

    def __init__(self, partition: Hash, edge: JobEdge) -> None:
        self._partition = partition
        self._node = edge.node
        self._targets = edge.target_parallelism
        self._most = edge.target_max_parallelism
        self._known: dict[Any, int] = {}

    def __call__(self, batch: Batch) -> list[tuple[int, Batch]]:
        batch, selected = _selected(self._partition.selector, batch, self._node)
        keys = canonical_batch(selected, self._partition.key_type)
        batch = batch.with_keys(keys)
        if self._targets == 1:
            return [(0, batch)]
        return deal(batch, self._owners_of(keys), self._targets)

    def _owners_of(self, keys: list[Any]) -> list[int]:
        """The receiver of each canonical key, cached: keys repeat, and a lookup costs a third of hashing."""
        known = self._known
        try:
            return [known[key] for key in keys]
        except KeyError:
            if len(known) > _KNOWN_KEYS:
                known.clear()
        new = list(set(keys).difference(known))
        owners = [group * self._targets // self._most for group in key_groups(new, self._most)]
        known.update(zip(new, owners, strict=True))
        return [known[key] for key in keys]


class _ByPartitioner:
    """Sends records to the receiver that the user's partitioner selects."""

    def __init__(self, partition: Custom, node: OperatorUid, targets: int) -> None:
        self._partition = partition
        self._node = node
        self._targets = targets

    def __call__(self, batch: Batch) -> list[tuple[int, Batch]]:
        batch, keys = _selected(self._partition.selector, batch, self._node)
        partitioner, targets = self._partition.partitioner, self._targets
        chosen = _each("partitioner", lambda key: partitioner(key, targets), keys, batch.values, self._node)
        for target in chosen:
            if type(target) is not int or not 0 <= target < self._targets:
                raise ConfigError(
                    f"the partitioner behind operator {self._node!r} returned {target!r}; "
                    f"expected an index from 0 to {self._targets - 1}"
                )
        return deal(batch, chosen, self._targets)


def _selected(selector: Callable[[Any], Any], batch: Batch, node: OperatorUid) -> tuple[Batch, list[Any]]:
    """A batch and its keys. Arrow rows stay if the selector names a column; a function gets rows, and so do the receivers."""
    if isinstance(batch.values, ArrowRows) and isinstance(selector, FieldSelector):
        with suppress(KeyError):  # which the selector explains
            return batch, batch.values.column(selector.field)
    batch = batch.in_rows()
    return batch, _each("key selector", selector, batch.values, batch.values, node)


def _each(
    what: str, function: Callable[[Any], Any], given: Sequence[Any], records: Sequence[Any], node: OperatorUid
) -> list[Any]:
    rest = iter(given)
    try:
        # `map` would treat a StopIteration of the function as the end of the records.
        return [function(each) for each in rest]
    except BaseException as error:
        record = records[len(given) - len(list(rest)) - 1]
        where = f"the {what} behind operator {node!r} failed on record {show(record)}"
        raise failure_of(where, error) from error
