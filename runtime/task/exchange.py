"""How batches get from a subtask to the subtasks behind an exchange.

A channel is one direction between two subtasks. It holds a few batches at most: the receiver grants credit for each
batch it has worked off, and a sender without credit does not take new input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from tidegate.elements import Batch, Control, Element
from tidegate.errors import UserCodeError
from tidegate.keys import canonical_batch, key_groups
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import Forward, Hash, Rebalance
from tidegate.runtime.operators.failure import show

__all__ = ["CREDIT", "Channel", "ChannelId", "Gate", "Router"]

CREDIT = 8
"""Batches that may be on the way in one channel."""


class ChannelId(msgspec.Struct, frozen=True, order=True):
    """From which subtask to which, over which edge."""

    edge: str
    source: int
    target: int


class Channel(Protocol):
    """The sending end."""

    credit: int

    def send(self, element: Element) -> None:
        """Hand over an element; batches cost a credit, control elements do not."""
        ...


class Router:
    """Deals the records of a batch to the subtasks behind an edge."""

    def __init__(self, edge: JobEdge, index: int) -> None:
        self._targets = edge.target_parallelism
        self._most = edge.target_max_parallelism
        self._index = index
        self._node = edge.node
        self._turn = index % self._targets
        match edge.partition:
            case Hash():
                self._hash = edge.partition
                self.route: Callable[[Batch], list[tuple[int, Batch]]] = self._by_key
            case Rebalance():
                self.route = self._in_turn
            case Forward():
                self.route = self._straight

    def _straight(self, batch: Batch) -> list[tuple[int, Batch]]:
        return [(self._index, batch)]

    def _in_turn(self, batch: Batch) -> list[tuple[int, Batch]]:
        shares = []
        for offset in range(min(self._targets, len(batch))):
            picked = slice(offset, None, self._targets)
            times = batch.timestamps[picked] if batch.timestamps is not None else None
            target = (self._turn + offset) % self._targets
            shares.append((target, Batch(batch.values[picked], times)))
        self._turn = (self._turn + len(batch)) % self._targets
        return shares

    def _by_key(self, batch: Batch) -> list[tuple[int, Batch]]:
        keys = canonical_batch(self._select(batch.values), self._hash.key_type)
        if self._targets == 1:
            return [(0, Batch(batch.values, batch.timestamps, keys))]
        groups = key_groups(keys, self._most)
        shares: list[Batch | None] = [None] * self._targets
        timed = batch.timestamps is not None
        times: Sequence[Any] = batch.timestamps if batch.timestamps is not None else keys
        for value, time, key, group in zip(batch.values, times, keys, groups, strict=True):
            target = group * self._targets // self._most
            share = shares[target]
            if share is None:
                share = shares[target] = Batch([], [] if timed else None, [])
            share.values.append(value)
            share.keys.append(key)  # type: ignore[union-attr] # made with keys just above
            if timed:
                share.timestamps.append(time)  # type: ignore[union-attr] # made with timestamps just above
        return [(target, share) for target, share in enumerate(shares) if share is not None]

    def _select(self, values: list[Any]) -> list[Any]:
        rest = iter(values)
        try:
            return list(map(self._hash.selector, rest))
        except Exception as error:
            record = values[len(values) - len(list(rest)) - 1]
            raise UserCodeError(
                f"the key selector behind operator {self._node!r} failed on record {show(record)}: "
                f"{type(error).__name__}: {error}"
            ) from error


class Gate:
    """All channels of one edge out of one subtask."""

    def __init__(self, edge: JobEdge, index: int, channels: dict[int, Channel]) -> None:
        self.edge = edge
        self._router = Router(edge, index)
        self._channels = channels

    @property
    def open(self) -> bool:
        """Whether every receiver can take another batch."""
        return all(channel.credit > 0 for channel in self._channels.values())

    def emit(self, batch: Batch) -> None:
        """Deal a batch."""
        for target, share in self._router.route(batch):
            self._channels[target].send(share)

    def broadcast(self, element: Control) -> None:
        """Send a control element to every receiver, behind all batches sent so far."""
        for channel in self._channels.values():
            channel.send(element)
