"""Routing: selects the receivers of records in an exchange, with one router for each kind of partitioning.

A router splits a batch into one batch for each receiver that gets records; the order of records is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tidegate.arrow_rows import ArrowRows
from tidegate.elements import Batch
from tidegate.errors import ConfigError, InternalError
from tidegate.ids import OperatorUid
from tidegate.keys import key_groups
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    KeyedForward,
    Rebalance,
    Rescale,
    Shuffle,
)
from tidegate.runtime.operators.keying import Keying, each_of, selected
from tidegate.serde import isolate

__all__ = ["Route", "by_key", "router"]

Route: TypeAlias = Callable[[Batch], list[tuple[int, Batch]]]

_KNOWN_KEYS: Final = 65_536
"""How many keys a router caches with their receivers."""


def router(edge: JobEdge, index: int) -> Route:
    """The router for the output of subtask `index` over `edge`."""
    targets = edge.target_parallelism
    match edge.partition:
        case KeyedForward():
            keying = Keying(edge.partition, edge.node)
            return lambda batch: [(index, keying(batch))]
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
            return lambda batch: _split_by_receiver(
                batch, [chance.randrange(targets) for _ in range(len(batch))], targets
            )
        case Custom():
            return _ByPartitioner(edge.partition, edge.node, targets)
        case Hash():
            return by_key(edge.partition, edge.node, targets, edge.target_max_parallelism)
        case other:
            raise InternalError(f"no router is known for {other!r}")


def by_key(partition: Hash, node: OperatorUid, targets: int, max_parallelism: int) -> Route:
    """Sends the output of a step to the owners of the key groups."""
    return _ByKey(Keying(partition, node), targets, max_parallelism)


def _split_by_receiver(batch: Batch, chosen: Sequence[int], targets: int) -> list[tuple[int, Batch]]:
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

    def __init__(self, keying: Keying, targets: int, most: int) -> None:
        self._keying = keying
        self._targets = targets
        self._most = most
        self._known: dict[Any, int] = {}

    def __call__(self, batch: Batch) -> list[tuple[int, Batch]]:
        batch = self._keying(batch)
        if self._targets == 1 or batch.keys is None:
            return [(0, batch)]
        return _split_by_receiver(batch, self._owners_of(batch.keys), self._targets)

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
        batch, keys = selected(self._partition.selector, batch, self._node)
        partitioner, targets = self._partition.partitioner, self._targets
        chosen = each_of("partitioner", lambda key: partitioner(key, targets), keys, batch.values, self._node)
        for target in chosen:
            if type(target) is not int or not 0 <= target < self._targets:
                raise ConfigError(
                    f"the partitioner behind operator {self._node!r} returned {target!r}; "
                    f"expected an index from 0 to {self._targets - 1}"
                )
        return _split_by_receiver(batch, chosen, self._targets)
