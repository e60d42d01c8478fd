"""Storage outages: clauses about a keyed store during and after a series of declined checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from tidegate.backends.keyed import snapshot
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.keyed.segment import chunk_size
from tidegate.backends.keyed.snapshot import PendingSnapshot
from tidegate.backends.keyed.store import KeyedStore
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage.files import StorageFiles
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

__all__ = ["OutageClauses"]

_LIMIT = 2_000
_TEXT = ValueStateDescriptor("text", Types.STRING())
_Written: TypeAlias = dict[int, str | None]
_End: TypeAlias = Literal["refused by the storage", "written", "given up", "late"]

_WRITTEN = st.dictionaries(
    st.integers(0, 30), st.none() | st.integers(0, 300).map(lambda size: "x" * size), max_size=20
)
_ENDS = st.sampled_from(("refused by the storage", "written", "given up", "late"))
_OUTAGES = st.lists(st.tuples(_WRITTEN, _ENDS), min_size=5, max_size=40)


@dataclass
class _Outage:
    """A store, its expected content, and a storage that is full at times."""

    backend: Backend
    root: Path
    storage: MemoryStorage

    def open(self, *handles: KeyedHandle) -> KeyedStore:
        files = StorageFiles(self.storage.blobs, "kit", inline_threshold=0)
        context = BackendContext(Path(mkdtemp(dir=self.root)), files, {})
        return KeyedStore(self.backend, KeyGroupRange(0, 8), 8, handles, context)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        def refuse(name: str, source: bytes | Path) -> None:
            raise UnavailableError("no space left on the storage")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self.storage.blobs, "put", refuse)
            yield

    def declined(self, pending: PendingSnapshot, end: _End) -> None:
        if end == "refused by the storage":
            with self.full(), contextlib.suppress(UnavailableError):
                pending.finish()
        elif end == "written":
            pending.finish()
        elif end == "given up":
            pending.discard()


class OutageClauses:
    """Clauses of a store over a backend during and after a storage outage."""

    def test_an_outage_uses_bounded_memory_and_loses_nothing(
        self, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After any number of declined checkpoints, the memory for the next one is bounded, and it holds everything.

        Later checkpoints are incremental, as before.
        """
        monkeypatch.setattr(snapshot, "MIN_LOG_BYTES", _LIMIT)

        @settings(max_examples=max(1, settings().max_examples // 2))
        @given(before=_WRITTEN, outage=_OUTAGES)
        def survives(before: _Written, outage: Sequence[tuple[_Written, _End]]) -> None:
            _survives(_Outage(backend, tmp_path, MemoryStorage()), before, outage)

        survives()


def _survives(kit: _Outage, before: _Written, outage: Sequence[tuple[_Written, _End]]) -> None:
    store, content = kit.open(), dict[int, str]()
    with contextlib.closing(store):
        _write(store, content, before)
        first = store.snapshot(CheckpointId(1), None).finish()
        limit = max(_LIMIT, sum(chunk_size(chunk) for chunk in first.chunks))
        for number, (written, end) in enumerate(outage, start=2):
            _write(store, content, written)
            kit.declined(store.snapshot(CheckpointId(number), CheckpointId(1)), end)
            assert store.unconfirmed_bytes <= 2 * limit
        last = CheckpointId(len(outage) + 2)
        decided = store.snapshot(last, CheckpointId(1)).finish()
        _write(store, content, {0: "after it"})
        next_one = store.snapshot(CheckpointId(last + 1), last).finish()
        assert store.unconfirmed_bytes < 100
        if decided.base != first.base:
            assert (next_one.base, next_one.segments[:-1]) == (decided.base, decided.segments)
    again = kit.open(next_one)
    with contextlib.closing(again):
        _holds(again, content)


def _write(store: KeyedStore, content: dict[int, str], written: _Written) -> None:
    for key, text in written.items():
        store.bind(key)
        if text is None:
            store.value_state(_TEXT).clear()
            content.pop(key, None)
        else:
            store.value_state(_TEXT).update(text)
            content[key] = text
    store.end_batch()


def _holds(store: KeyedStore, content: dict[int, str]) -> None:
    for key in range(31):
        store.bind(key)
        assert store.value_state(_TEXT).value() == content.get(key)
