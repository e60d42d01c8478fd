"""Who gets which record behind an exchange: one router for each kind of partition.

A router deals a batch into one batch for each receiver that gets anything; the order of records is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

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
from tidegate.serde import isolate

__all__ = ["Route", "router"]

Route: TypeAlias = Callable[[Batch], list[tuple[int, Batch]]]

_KNOWN_KEYS: Final = 65_536
"""How many keys a router remembers the receivers of."""


def router(edge: JobEdge, index: int) -> Route:
    """Deals what leaves subtask `index` over `edge`."""
    targets = edge.target_parallelism
    match edge.partition:
        case Forward():
            return lambda batch: [(index, batch)]
        case Global():
            return lambda batch: [(0, batch)]
        case Broadcast():
            return lambda batch: [(target, _copied(batch)) for target in range(targets)]
        case Rebalance():
            return _InTurn(range(targets), index % targets)
        case Rescale():
            near = edge.reached_from(index)
            return _InTurn(near, index % len(near))
        case Shuffle():
            # Seeded by its place, so that two runs of one program deal alike.
            chance = random.Random(f"{edge.name} {index}")
            return lambda batch: deal(batch, [chance.randrange(targets) for _ in batch.values], targets)
        case Custom():
            return _AsTold(edge.partition, edge.node, targets)
        case Hash():
            return _ByKey(edge.partition, edge)
        case other:
            raise InternalError(f"no router is known for {other!r}")


def deal(batch: Batch, chosen: Sequence[int], targets: int) -> list[tuple[int, Batch]]:
    """One batch for each receiver that is chosen by a record."""
    if len(batch) == 1:
        return [(chosen[0], batch)]
    shares: list[list[int]] = [[] for _ in range(targets)]
    for place, target in enumerate(chosen):
        shares[target].append(place)
    return [(target, batch.select(places)) for target, places in enumerate(shares) if places]


def _copied(batch: Batch) -> Batch:
    """A batch of its own for a receiver that may change what it gets."""
    return batch.with_values([isolate(value) for value in batch.values])


class _InTurn:
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
    """To the owner of the key's group."""

    def __init__(self, partition: Hash, edge: JobEdge) -> None:
        self._partition = partition
        self._node = edge.node
        self._targets = edge.target_parallelism
        self._most = edge.target_max_parallelism
        self._known: dict[Any, int] = {}

    def __call__(self, batch: Batch) -> list[tuple[int, Batch]]:
        selected = _each("key selector", self._partition.selector, batch.values, batch.values, self._node)
        keys = canonical_batch(selected, self._partition.key_type)
        batch = batch.with_keys(keys)
        if self._targets == 1:
            return [(0, batch)]
        return deal(batch, self._owners_of(keys), self._targets)

    def _owners_of(self, keys: list[Any]) -> list[int]:
        """The receiver of each canonical key: keys come again, and looking them up costs a third of hashing bytes."""
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


class _AsTold:
    """To whom the user's partitioner says."""

    def __init__(self, partition: Custom, node: OperatorUid, targets: int) -> None:
        self._partition = partition
        self._node = node
        self._targets = targets

    def __call__(self, batch: Batch) -> list[tuple[int, Batch]]:
        keys = _each("key selector", self._partition.selector, batch.values, batch.values, self._node)
        partitioner, targets = self._partition.partitioner, self._targets
        chosen = _each("partitioner", lambda key: partitioner(key, targets), keys, batch.values, self._node)
        for target in chosen:
            if type(target) is not int or not 0 <= target < self._targets:
                raise ConfigError(
                    f"the partitioner behind operator {self._node!r} answered {target!r}; "
                    f"expected an index below {self._targets}"
                )
        return deal(batch, chosen, self._targets)


def _each(
    what: str, function: Callable[[Any], Any], given: list[Any], records: list[Any], node: OperatorUid
) -> list[Any]:
    rest = iter(given)
    try:
        # `map` would take a StopIteration of the function for the end of the records.
        return [function(each) for each in rest]
    except BaseException as error:
        record = records[len(given) - len(list(rest)) - 1]
        where = f"the {what} behind operator {node!r} failed on record {show(record)}"
        raise failure_of(where, error) from error
