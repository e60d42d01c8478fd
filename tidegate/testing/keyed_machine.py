"""Base state machine of the keyed state models: checkpoints, crashes and rescaling.

The machine acts as subtasks and as coordinator. Checkpoints are decided or declined, files of declined ones are
deleted, and a crash restores the newest decided one at another parallelism. A model adds the user functions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tidegate.backends.keyed.snapshot import PendingSnapshot
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Backend, BackendContext, Blobs, KeyedHandle, StoredChunk
from tidegate.backends.storage.files import StorageFiles
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.errors import TidegateError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.keys import key_bytes, key_group, owner, ranges

__all__ = ["ALL_KEYS", "KEYS", "MEANWHILE", "NAMESPACES", "SPACES", "KeyedMachine", "Uploads"]

MAX_PARALLELISM = 4
ALL_KEYS = ("a", "b\0", 7, ("t", 1))
KEYS = st.sampled_from(ALL_KEYS)
NAMESPACES = (b"\0", b"w")
SPACES = st.tuples(KEYS, st.sampled_from(NAMESPACES))

MEANWHILE = st.sampled_from(("nothing", "a batch ends", "a checkpoint", "a restart"))
"""Arguments of `go_on`."""


@dataclass
class Checkpoint:
    """A checkpoint that is neither decided nor declined, and its expected content."""

    number: CheckpointId
    pending: Sequence[PendingSnapshot]
    relies_on: Sequence[KeyedHandle]
    content: Any


class Uploads(Executor):
    """Runs background work on request, or when its result is requested.

    `files` are the names of the files that it wrote to the storage.
    """

    def __init__(self, blobs: Blobs) -> None:
        self.files: set[str] = set()
        self.waiting: list[_Upload] = []
        self._blobs = blobs

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _Upload:
        """Queue work."""

        def watched() -> Any:
            before = self._blobs.list("")
            try:
                return fn(*args, **kwargs)
            finally:
                self.files.update(set(self._blobs.list("")).difference(before))

        self.waiting.append(_Upload(watched))
        return self.waiting[-1]

    def run(self) -> None:
        """Run all queued work."""
        while self.waiting:
            self.waiting.pop(0).do()


class _Upload(Future[Any]):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work = work

    def do(self) -> None:
        if self.done() or not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(self._work())
        except TidegateError as error:
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        self.do()
        return super().result(timeout)


class KeyedMachine(RuleBasedStateMachine):
    """`KeyedStore` over `backend` and its expected `content`; directories are created below `root`."""

    inline_threshold = 0

    def __init__(self, backend: Backend, root: Path, content: Any) -> None:
        super().__init__()
        self.backend = backend
        self.root = root
        self.clock = ManualClock()
        self.storage = MemoryStorage()
        self.uploads = Uploads(self.storage.blobs)
        self.files = StorageFiles(self.storage.blobs, "model", self.inline_threshold)
        self.model = content
        self.open_checkpoints: list[Checkpoint] = []
        self.numbers = 0
        self.decided: CheckpointId | None = None
        self.handles: list[KeyedHandle] = []
        self.decided_content = copy.deepcopy(content)
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
                uploads=self.uploads,
                now_ns=self.clock.now_ns,
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

    def go_on(self, meanwhile: str) -> None:
        """An event between two calls."""
        match meanwhile:
            case "a batch ends":
                self.evict()
            case "a checkpoint":
                self.save(rely=True)
            case "a restart":
                self.rescale(3 - len(self.stores) if len(self.stores) < 3 else 1)

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
            store.prefetch([key for key, mine in zip(keys, owners, strict=True) if mine == number])

    @rule(rely=st.booleans())
    def checkpoint(self, rely: bool) -> None:
        """Reach a barrier; without `rely` the checkpoint must be full.

        A checkpoint that is still open is never decided, though it may still be written. Objects read before the barrier
        are changed right after it, which must have no effect.
        """
        late = [each for open_ in self.open_checkpoints for each in open_.pending]
        self.open_checkpoints.clear()
        self.numbers += 1
        number = CheckpointId(self.numbers)
        confirmed = self.decided if rely else None
        pending = [store.snapshot(number, confirmed) for store in self.stores]
        for items in self.read_lists:
            items.append(98)
        self.read_lists.clear()
        content = copy.deepcopy(self.model)
        self.open_checkpoints.append(Checkpoint(number, pending, self.handles, content))
        for each in late:
            with pytest.raises(UnavailableError, match="cancelled"):
                each.finish()

    @precondition(lambda self: self.open_checkpoints)
    @rule()
    def decide(self) -> None:
        """The open checkpoint is written and decided; files that only the previous one needed are deleted."""
        checkpoint = self.open_checkpoints.pop(0)
        self.handles = [pending.finish() for pending in checkpoint.pending]
        self.uploads.files.difference_update(*(pending.dropped for pending in checkpoint.pending))
        self.decided, self.decided_content = checkpoint.number, checkpoint.content
        self.delete_unreferenced()

    @precondition(lambda self: self.open_checkpoints)
    @rule(finish=st.booleans())
    def decline(self, finish: bool) -> None:
        """The open checkpoint is declined, before or after its files were written."""
        for pending in self.open_checkpoints.pop(0).pending:
            if finish:
                pending.finish()
            else:
                pending.discard()
        self.delete_unreferenced()

    @rule()
    def upload(self) -> None:
        """New bases are complete; the next checkpoint refers to them."""
        self.uploads.run()

    @rule(rely=st.booleans())
    def save(self, rely: bool) -> None:
        """Take a checkpoint and decide it."""
        self.checkpoint(rely)
        self.decide()

    @rule(rely=st.booleans())
    def fail(self, rely: bool) -> None:
        """Take a checkpoint whose files are written and deleted again, because others declined it."""
        self.checkpoint(rely)
        self.decline(finish=True)

    @rule(parallelism=st.integers(1, 3))
    def rescale(self, parallelism: int) -> None:
        """Take a checkpoint, then continue at another parallelism."""
        self.save(rely=True)
        self.crash_and_restore(parallelism)

    @rule(parallelism=st.integers(1, 3))
    def crash_and_restore(self, parallelism: int) -> None:
        """Crash: continue from the decided checkpoint at another parallelism."""
        self.close_all()
        self.model = copy.deepcopy(self.decided_content)
        self.delete_unreferenced()
        self.start(parallelism)

    def teardown(self) -> None:
        """Compare the content after restores at several parallelisms."""
        try:
            for parallelism in (3, 1):
                self.rescale(parallelism)
                self.compare()
        finally:
            self.close_all()

    def compare(self) -> None:
        """Compare the stored entries with the expected content; implemented by each model."""

    def delete_unreferenced(self) -> None:
        """Delete files that no decided or open checkpoint needs, as the coordinator's registry does."""
        handles = [*self.handles, *(handle for open_ in self.open_checkpoints for handle in open_.relies_on)]
        chunks = [chunk for handle in handles for chunk in handle.chunks]
        kept = {chunk.name for chunk in chunks if isinstance(chunk, StoredChunk)} | self.uploads.files
        self.storage.blobs.delete([name for name in self.storage.blobs.list("") if name not in kept])

    def close_all(self) -> None:
        """Crash all subtasks."""
        for checkpoint in self.open_checkpoints:
            for pending in checkpoint.pending:
                pending.discard()
        self.open_checkpoints.clear()
        for store in self.stores:
            store.close()
        self.uploads.run()
        self.uploads.files.clear()
