"""Keyed state against a plain dict: a Hypothesis state machine that any backend runs.

The machine plays subtasks, user functions and coordinator at once. Checkpoints are decided or declined, files of
declined ones are deleted, and a crash restores the newest decided one at another parallelism.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.keyed.snapshot import PendingSnapshot
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle, StoredChunk, Timer
from tidegate.backends.storage.files import StorageFiles
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.ids import CheckpointId
from tidegate.keys import key_bytes, key_group, owner, ranges
from tidegate.types import Types

__all__ = ["KeyedModel"]

MAX_PARALLELISM = 4
COUNT = ValueStateDescriptor("count", Types.LONG(), default=0)
ITEMS = ValueStateDescriptor("items", default=[])
ALL_KEYS = ("a", "b\0", 7, ("t", 1))
KEYS = st.sampled_from(ALL_KEYS)
NAMESPACES = (b"\0", b"w")
SPACES = st.tuples(KEYS, st.sampled_from(NAMESPACES))
TIMES = st.integers(-3, 12)


@dataclass
class Content:
    """What should be stored."""

    counts: dict[Any, int] = field(default_factory=dict)
    items: dict[Any, list[int]] = field(default_factory=dict)
    spaces: dict[tuple[Any, bytes], list[int]] = field(default_factory=dict)
    timers: set[tuple[int, Any]] = field(default_factory=set)


@dataclass
class Checkpoint:
    """A checkpoint that is neither decided nor declined, and what it should hold."""

    number: CheckpointId
    pending: Sequence[PendingSnapshot]
    relies_on: Sequence[KeyedHandle]
    content: Content


class KeyedModel(RuleBasedStateMachine):
    """`KeyedStore` over `backend`; directories are made below `root`."""

    def __init__(self, backend: Backend, root: Path) -> None:
        super().__init__()
        self.backend = backend
        self.root = root
        self.storage = MemoryStorage()
        self.files = StorageFiles(self.storage.blobs, "model", inline_threshold=0)
        self.model = Content()
        self.open_checkpoints: list[Checkpoint] = []
        self.numbers = 0
        self.decided: CheckpointId | None = None
        self.handles: list[KeyedHandle] = []
        self.decided_content = Content()
        self.stores: list[KeyedStore] = []
        self.read_lists: list[list[int]] = []
        self.start(2)

    def start(self, parallelism: int) -> None:
        """Open all subtasks from the newest decided checkpoint."""
        self.stores = [
            KeyedStore(
                self.backend,
                part,
                MAX_PARALLELISM,
                self.handles,
                BackendContext(Path(mkdtemp(dir=self.root)), self.files, {}),
                cache_entries=1,
            )
            for part in ranges(parallelism, MAX_PARALLELISM)
        ]

    def bound(self, key: Any) -> KeyedStore:
        """The store of a key, bound to it."""
        group = key_group(key_bytes(key), MAX_PARALLELISM)
        store = self.stores[owner(group, len(self.stores), MAX_PARALLELISM)]
        store.bind(key)
        assert store.current_key == key
        return store

    def inside(self, space: tuple[Any, bytes]) -> KeyedStore:
        """The store of a key, bound to it and to a namespace of it."""
        store = self.bound(space[0])
        store.bind_in(*space)
        return store

    @rule(key=KEYS, value=st.integers(-2, 2))
    def update(self, key: Any, value: int) -> None:
        """Write an immutable value."""
        self.bound(key).value_state(COUNT).update(value)
        self.model.counts[key] = value

    @rule(key=KEYS, item=st.integers(0, 3))
    def mutate(self, key: Any, item: int) -> None:
        """Change a mutable value in place, the default too."""
        items = self.bound(key).value_state(ITEMS).value()
        items.append(item)
        self.read_lists.append(items)
        self.model.items.setdefault(key, []).append(item)

    @rule(key=KEYS, items=st.lists(st.integers(0, 3), max_size=2))
    def replace(self, key: Any, items: list[int]) -> None:
        """Write a mutable value and change the argument afterwards, which does not count."""
        self.bound(key).value_state(ITEMS).update(items)
        self.model.items[key] = list(items)
        items.append(99)

    @rule(key=KEYS)
    def clear(self, key: Any) -> None:
        """Forget both values of a key."""
        store = self.bound(key)
        store.value_state(COUNT).clear()
        store.value_state(ITEMS).clear()
        self.model.counts.pop(key, None)
        self.model.items.pop(key, None)

    @rule(key=KEYS)
    def read(self, key: Any) -> None:
        """Read both values."""
        store = self.bound(key)
        assert store.value_state(COUNT).value() == self.model.counts.get(key, 0)
        assert store.value_state(ITEMS).value() == self.model.items.get(key, [])

    @rule(space=SPACES, item=st.integers(0, 3))
    def mutate_in(self, space: tuple[Any, bytes], item: int) -> None:
        """Change a mutable value in a namespace, which the value of the key itself does not show."""
        items = self.inside(space).value_state(ITEMS, namespaced=True).value()
        items.append(item)
        self.read_lists.append(items)
        self.model.spaces.setdefault(space, []).append(item)

    @rule(space=SPACES)
    def delete_in(self, space: tuple[Any, bytes]) -> None:
        """Forget a namespace."""
        self.inside(space).delete_in(*space)
        self.model.spaces.pop(space, None)

    @rule(space=SPACES)
    def read_in(self, space: tuple[Any, bytes]) -> None:
        """Read a value in a namespace, and that of the key that is bound beside it."""
        store = self.inside(space)
        assert store.value_state(ITEMS, namespaced=True).value() == self.model.spaces.get(space, [])
        self.read(space[0])
        assert store.value_state(ITEMS, namespaced=True).value() == self.model.spaces.get(space, [])

    @rule(key=KEYS, time=TIMES)
    def register(self, key: Any, time: int) -> None:
        """Register a timer."""
        self.bound(key).event_timers.register(Timer(time, key))
        self.model.timers.add((time, key))

    @rule(key=KEYS, time=TIMES)
    def delete(self, key: Any, time: int) -> None:
        """Delete a timer that may not exist."""
        self.bound(key).event_timers.delete(Timer(time, key))
        self.model.timers.discard((time, key))

    @rule(until=TIMES, again=st.booleans())
    def fire(self, until: int, again: bool) -> None:
        """Let time move on; with `again`, a timer registers one for the moment it fires at."""
        for store in self.stores:
            fired: list[Timer] = []
            for timer in store.event_timers.due(until):
                if again and not fired:
                    store.event_timers.register(Timer(timer.time, timer.key))
                    self.model.timers.add((timer.time, timer.key))
                    fired.append(timer)
                    continue
                fired.append(timer)
                self.model.timers.remove((timer.time, timer.key))
            assert [timer.time for timer in fired] == sorted(timer.time for timer in fired)
        assert all(time > until for time, _ in self.model.timers)

    @rule()
    def evict(self) -> None:
        """End a batch: the cache shrinks."""
        for store in self.stores:
            store.end_batch()

    @rule(keys=st.lists(KEYS, max_size=4))
    def prefetch(self, keys: list[Any]) -> None:
        """Read the rows of a batch at once."""
        for number, store in enumerate(self.stores):
            groups = [key_group(key_bytes(key), MAX_PARALLELISM) for key in keys]
            owners = [owner(group, len(self.stores), MAX_PARALLELISM) for group in groups]
            store.prefetch(key for key, mine in zip(keys, owners, strict=True) if mine == number)

    @precondition(lambda self: len(self.open_checkpoints) < 2)
    @rule(rely=st.booleans())
    def checkpoint(self, rely: bool) -> None:
        """Reach a barrier; without `rely` the checkpoint must stand alone.

        What was read before is changed right after, which does not count any more.
        """
        self.numbers += 1
        number = CheckpointId(self.numbers)
        confirmed = self.decided if rely else None
        pending = [store.snapshot(number, confirmed) for store in self.stores]
        for items in self.read_lists:
            items.append(98)
        self.read_lists.clear()
        content = copy.deepcopy(self.model)
        self.open_checkpoints.append(Checkpoint(number, pending, self.handles, content))

    @precondition(lambda self: self.open_checkpoints)
    @rule()
    def decide(self) -> None:
        """The oldest open checkpoint is written and decided; what only the one before needed is deleted."""
        checkpoint = self.open_checkpoints.pop(0)
        self.handles = [pending.finish() for pending in checkpoint.pending]
        self.decided, self.decided_content = checkpoint.number, checkpoint.content
        self.delete_unreferenced()

    @precondition(lambda self: self.open_checkpoints)
    @rule(finish=st.booleans())
    def decline(self, finish: bool) -> None:
        """The oldest open checkpoint is given up, before or after its files were written."""
        for pending in self.open_checkpoints.pop(0).pending:
            if finish:
                pending.finish()
            else:
                pending.discard()
        self.delete_unreferenced()

    @rule(rely=st.booleans())
    def save(self, rely: bool) -> None:
        """Take a checkpoint and decide everything that is open."""
        self.checkpoint(rely)
        while self.open_checkpoints:
            self.decide()

    @rule(rely=st.booleans())
    def fail(self, rely: bool) -> None:
        """Take a checkpoint whose files are written and deleted again, because others declined it."""
        while self.open_checkpoints:
            self.decide()
        self.checkpoint(rely)
        self.decline(finish=True)

    @rule(parallelism=st.integers(1, 3))
    def rescale(self, parallelism: int) -> None:
        """Save, then go on at another parallelism."""
        self.save(rely=True)
        self.crash_and_restore(parallelism)

    @rule(parallelism=st.integers(1, 3))
    def crash_and_restore(self, parallelism: int) -> None:
        """Everything since the decided checkpoint is lost; go on from it, at another parallelism."""
        self.close_all()
        self.model = copy.deepcopy(self.decided_content)
        self.delete_unreferenced()
        self.start(parallelism)

    @invariant()
    def next_timer_is_known(self) -> None:
        """The earliest timer is known at any time."""
        times = [time for store in self.stores if (time := store.event_timers.next_time()) is not None]
        assert min(times, default=None) == min((time for time, _ in self.model.timers), default=None)

    def teardown(self) -> None:
        """Nothing is lost and nothing comes back, at any parallelism."""
        try:
            self.rescale(parallelism=3)
            self.compare()
            self.rescale(parallelism=1)
            self.compare()
            self.fire(until=99, again=False)
        finally:
            self.close_all()

    def compare(self) -> None:
        """Read every key and namespace that ever was."""
        for key in ALL_KEYS:
            for namespace in NAMESPACES:
                self.read_in((key, namespace))

    def delete_unreferenced(self) -> None:
        """What the coordinator's registry does with files that no decided or open checkpoint counts on."""
        handles = [*self.handles, *(handle for open_ in self.open_checkpoints for handle in open_.relies_on)]
        chunks = [chunk for handle in handles for chunk in handle.chunks]
        kept = {chunk.name for chunk in chunks if isinstance(chunk, StoredChunk)}
        self.storage.blobs.delete([name for name in self.storage.blobs.list("") if name not in kept])

    def close_all(self) -> None:
        """Crash all subtasks."""
        for checkpoint in self.open_checkpoints:
            for pending in checkpoint.pending:
                pending.discard()
        self.open_checkpoints.clear()
        for store in self.stores:
            store.close()
