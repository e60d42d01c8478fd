"""The mergeable windows of the current key, with the namespace of the contents of each, in one value state.

Names are the encoded windows, which a row holds without copying. Merging needs the windows themselves; everything else
compares names, so removing a window costs the same for all window classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.runtime.operators.window.assigner import MergingWindowAssigner
from tidegate.runtime.operators.window.codec import WindowCodec
from tidegate.runtime.operators.window.merging import MergingWindows

__all__ = ["MergedWindowMap"]

_HOMES: Final = ValueStateDescriptor("window:merged")
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(tuple[tuple[bytes, bytes], ...]).decode


class MergedWindowMap:
    """Pairs of names, window and home, in the order in which windows were made."""

    def __init__(self, store: KeyedStore, codec: WindowCodec) -> None:
        self._state = store.value_state(_HOMES)
        self._codec = codec

    @property
    def names(self) -> Sequence[tuple[bytes, bytes]]:
        """All pairs."""
        stored = self._state.value()
        return _unpack(stored) if stored is not None else ()

    def add(self, name: bytes) -> None:
        """Add a window that overlaps no other and keeps its contents in its own namespace."""
        self._store((*self.names, (name, name)))

    def rename(self, old: bytes, name: bytes) -> None:
        """Rename a window; it counts as the newest."""
        names = self.names
        home = next(home for window, home in names if window == old)
        self._store([*(pair for pair in names if pair[0] != old), (name, home)])

    def home_of(self, name: bytes) -> bytes | None:
        """The namespace of a window's contents; None if the window is unknown."""
        return next((home for window, home in self.names if window == name), None)

    def retire(self, name: bytes) -> None:
        """Remove a window that ended."""
        self._store([pair for pair in self.names if pair[0] != name])

    def windows(self, merging: MergingWindowAssigner) -> MergingWindows:
        """The windows themselves."""
        decode = self._codec.decode
        return MergingWindows({decode(window): decode(home) for window, home in self.names}, merging)

    def keep(self, windows: MergingWindows) -> None:
        """Store the windows after a merge."""
        encode = self._codec.encode
        self._store([(encode(window), encode(home)) for window, home in windows.homes.items()])

    def _store(self, names: Sequence[tuple[bytes, bytes]]) -> None:
        homes = _pack(names) if names else None
        if homes != self._state.value():
            self._state.update(homes)
