"""What tests of expiring state say: descriptors with a life, one of each kind, and looks at what is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.backends.keyed import (
    AggregatingStateDescriptor,
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.ttl import StateTtlConfig
from tidegate.backends.spi import KeyedHandle
from tidegate.common import Time
from tidegate.datastream import AggregateFunction
from tidegate.ids import CheckpointId

__all__ = ["READS", "checkpoint", "living", "stored_values"]


class Total(AggregateFunction):
    """A sum in a list."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0]]


def living(descriptor: StateDescriptor, *says: str, **with_arguments: Any) -> Any:
    """The descriptor with a life of a second."""
    builder: Any = StateTtlConfig.new_builder(Time.seconds(1))
    for name in says:
        builder = getattr(builder, name)()
    for name, arguments in with_arguments.items():
        builder = getattr(builder, name)(*arguments)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def checkpoint(store: KeyedStore, number: int = 1, confirmed: int | None = None) -> KeyedHandle:
    relied_on = None if confirmed is None else CheckpointId(confirmed)
    return store.snapshot(CheckpointId(number), relied_on).finish()


def stored_values(store: KeyedStore) -> int:
    """How many keys have a value, expired or not, after everything is written."""
    return len(list(store.keys("seen")))


READS: dict[str, tuple[Callable[[], StateDescriptor], Callable[[Any], None], Callable[[Any], Any]]] = {
    "value": (lambda: ValueStateDescriptor("seen"), lambda s: s.update(7), lambda s: s.value()),
    "mutable value": (
        lambda: ValueStateDescriptor("seen"),
        lambda s: s.update([7]),
        lambda s: None if s.value() is None else s.value()[0],
    ),
    "list": (lambda: ListStateDescriptor("seen"), lambda s: s.add(7), lambda s: sum(s) or None),
    "map": (lambda: MapStateDescriptor("seen"), lambda s: s.put("a", 7), lambda s: s.get("a")),
    "map entries": (
        lambda: MapStateDescriptor("seen"),
        lambda s: s.put("a", 7),
        lambda s: dict(s.items()).get("a"),
    ),
    "reducing": (
        lambda: ReducingStateDescriptor("seen", max),
        lambda s: s.add(7),
        lambda s: s.get(),
    ),
    "aggregating": (
        lambda: AggregatingStateDescriptor("seen", Total()),
        lambda s: s.add(7),
        lambda s: s.get(),
    ),
}
