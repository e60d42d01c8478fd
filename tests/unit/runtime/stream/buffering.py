"""A function that keeps what it has not handed on yet in operator state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.datastream import CheckpointedFunction, FlatMapFunction, ListStateDescriptor
from tidegate.types import Types

__all__ = ["BUFFERED", "BufferingSink"]

BUFFERED = ListStateDescriptor("buffered-elements", Types.STRING())


class BufferingSink(FlatMapFunction, CheckpointedFunction):
    """Hands records on once there are `threshold` of them; tells what it holds when it is asked, or whose it is."""

    def __init__(self, threshold: int = 0, *, union: bool = False) -> None:
        self.threshold = threshold
        self.union = union
        self.buffered: list[str] = []

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_union_list_state(BUFFERED) if self.union else store.get_list_state(BUFFERED)
        self.restored_from = context.get_restored_checkpoint_id()
        if context.is_restored():
            self.buffered = list(self.stored)

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def flat_map(self, value: str) -> Iterable[Any]:
        if value == "?":
            yield self.buffered
            return
        if value == "whose?":
            yield self.subtask, self.buffered
            return
        self.buffered.append(value)
        if len(self.buffered) == self.threshold:
            yield self.buffered
            self.buffered = []

    def snapshot_state(self, context: Any) -> None:
        assert context.get_checkpoint_id() >= 1
        self.stored.clear()
        self.stored.add_all(self.buffered)
