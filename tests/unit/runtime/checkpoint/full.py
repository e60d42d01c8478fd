"""Storages that are full now and then, or cannot decide."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.errors import UnavailableError

__all__ = ["Full", "Undecided"]


class Full(CheckpointStorage):
    """Refuses the steps that `full` names: create, swap, after swap, delete."""

    url = "memory://full"

    def __init__(self, inner: CheckpointStorage) -> None:
        self._inner = inner
        self.full: set[str] = set()

    def check(self, what: str) -> None:
        if what in self.full:
            raise UnavailableError("no space left")

    @property
    def blobs(self) -> Blobs:
        return _FullBlobs(self._inner.blobs, self)

    @property
    def decisions(self) -> Decisions:
        assert self._inner.decisions is not None
        return _FullDecisions(self._inner.decisions, self)


class Undecided(CheckpointStorage):
    """Has files and nothing else."""

    url = "memory://undecided"

    def __init__(self, inner: CheckpointStorage) -> None:
        self._inner = inner

    @property
    def blobs(self) -> Blobs:
        return self._inner.blobs

    @property
    def decisions(self) -> None:
        return None


class _FullBlobs(Blobs):
    def __init__(self, inner: Blobs, storage: Full) -> None:
        self._inner, self._storage = inner, storage

    def put(self, name: str, source: bytes | Path) -> None:
        self._inner.put(name, source)

    def open(self, name: str) -> BinaryIO:
        return self._inner.open(name)

    def list(self, prefix: str) -> list[str]:
        return self._inner.list(prefix)

    def delete(self, names: Iterable[str]) -> None:
        self._storage.check("delete")
        self._inner.delete(names)


class _FullDecisions(Decisions):
    def __init__(self, inner: Decisions, storage: Full) -> None:
        self._inner, self._storage = inner, storage

    def create(self, name: str, data: bytes) -> bool:
        self._storage.check("create")
        return self._inner.create(name, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        self._storage.check("swap")
        swapped = self._inner.swap(name, old_tag, data)
        self._storage.check("after swap")
        return swapped

    def read(self, name: str) -> Decision | None:
        return self._inner.read(name)
