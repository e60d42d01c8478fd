"""A materialisation in memory, shared by the heap and the filesystem backend; only where a base goes differs.

A cut costs nothing that grows with the state: it keeps the present layers and puts an empty one on top, which takes
the later writes until every cut is released. Then the layers become one again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Final, TypeAlias

from tidegate.backends.keyed.address import group_of, range_bounds
from tidegate.backends.keyed.segment import encode_parts, read_segment
from tidegate.backends.spi import (
    Address,
    BackendContext,
    BaseHandle,
    Chunk,
    Cut,
    Entry,
    Materialisation,
    SnapshotFiles,
)
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

__all__ = ["MemoryMaterialisation", "Place", "kept_entries", "merged", "read_base"]

FORMAT_VERSION: Final = 1
_FILE: Final = "entries"
_PART: Final = 500
_REST_S: Final = 0.000_05

Place: TypeAlias = Callable[[SnapshotFiles, bytes], Chunk]
"""Where a backend puts the bytes of a base."""

_Layer: TypeAlias = dict[Address, bytes | None]


class MemoryMaterialisation(Materialisation):
    """Entries in dictionaries, the newest on top; sorted only when somebody scans."""

    def __init__(self, backend: str, place: Place, entries: Iterable[Entry]) -> None:
        self._backend = backend
        self._place = place
        self._layers: list[_Layer] = [dict(entries)]
        self._cuts: set[_MemoryCut] = set()
        self._sorted: list[Address] | None = None
        """All addresses but those of `_unsorted`, with some that are gone; None until somebody scans."""
        self._unsorted: list[Address] = []

    def get_many(self, addresses: Sequence[Address]) -> list[bytes | None]:
        """The bytes of each address."""
        if len(self._layers) == 1:
            return [self._layers[0].get(at) for at in addresses]
        return [_newest(self._layers, at) for at in addresses]

    def apply(self, entries: Iterable[Entry]) -> None:
        """Write into the top layer."""
        self._fold()
        self._write(dict(entries))

    def _write(self, written: dict[Address, bytes | None]) -> None:
        if self._sorted is not None:
            self._unsorted.extend(written)
            if len(self._unsorted) > len(self._sorted):
                self._sorted = None  # sorting all of it anew is no more work than merging
                self._unsorted.clear()
        if len(self._layers) == 1:
            _write_through(self._layers[0], written)
        else:
            self._layers[-1].update(written)

    def scan(self, first: Address, last: Address) -> Iterator[tuple[Address, bytes]]:
        """Entries of a range, of the moment of the call."""
        order = self._ordered()
        addresses = order[bisect_left(order, first) : bisect_left(order, last)]
        values = self.get_many(addresses)
        return ((at, value) for at, value in zip(addresses, values, strict=True) if value is not None)

    def cut(self, checkpoint: CheckpointId) -> Cut:
        """Freeze the present layers."""
        self._fold()
        cut = _MemoryCut(self._backend, self._place, tuple(self._layers), self._cuts)
        self._cuts.add(cut)
        self._layers.append({})
        return cut

    def _ordered(self) -> list[Address]:
        """All addresses in order; only what was written since the last scan is sorted."""
        if self._sorted is None or len(self._sorted) > 2 * sum(map(len, self._layers)):
            # Without doubles and in the order of the layers: that of a restored one is the right one already.
            self._sorted = sorted(dict.fromkeys(chain.from_iterable(self._layers)))
        elif self._unsorted:
            # Two sorted runs: sorting merges them.
            self._sorted = list(dict.fromkeys(sorted(self._sorted + sorted(self._unsorted))))
        self._unsorted.clear()
        return self._sorted

    def _fold(self) -> None:
        """Make one layer of all, unless a cut still reads some of them in another thread."""
        if self._cuts or len(self._layers) == 1:
            return
        bottom, *rest = self._layers
        for layer in rest:
            _write_through(bottom, layer)
        self._layers = [bottom]


class _MemoryCut(Cut):
    """Layers nobody writes to any more."""

    def __init__(
        self, backend: str, place: Place, layers: tuple[_Layer, ...], open_cuts: set[_MemoryCut]
    ) -> None:
        self._backend = backend
        self._place = place
        self._layers = layers
        self._open_cuts = open_cuts

    def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
        """Write all entries as one file."""
        groups: defaultdict[int, list[Address]] = defaultdict(list)
        for layer in self._layers:
            for part in _unhurried(layer):
                for at in part:
                    groups[group_of(at)].append(at)
        chunk = self._place(files, encode_parts(self._sorted_parts(groups)))
        return BaseHandle(self._backend, FORMAT_VERSION, ((_FILE, chunk),))

    def release(self) -> None:
        """Let the layers be folded."""
        self._layers = ()
        self._open_cuts.discard(self)

    def _sorted_parts(self, groups: dict[int, list[Address]]) -> Iterator[list[Entry]]:
        """Everything in order, in parts; `groups` is used up."""
        for group in sorted(groups):
            for part in _unhurried(sorted(set(groups.pop(group)))):
                found = ((at, _newest(self._layers, at)) for at in part)
                yield [entry for entry in found if entry[1] is not None]


def merged(layers: Sequence[_Layer]) -> _Layer:
    """What layers hold together."""
    bottom, *rest = layers
    if not rest:
        return bottom
    together = dict(bottom)
    for layer in rest:
        _write_through(together, layer)
    return together


def kept_entries(
    base: BaseHandle | None, key_groups: KeyGroupRange, context: BackendContext
) -> Sequence[Entry]:
    """What a materialisation of `key_groups` starts with; raises as `Backend.open` does."""
    if base is None:
        return ()
    entries = _entries(base, context)
    first, last = (bisect_left(entries, at, key=itemgetter(0)) for at in range_bounds(key_groups))
    return entries[first:last]


def read_base(base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
    """What `Backend.read` promises."""
    return ((at, value) for at, value in _entries(base, context) if value is not None)


def _entries(base: BaseHandle, context: BackendContext) -> list[Entry]:
    """All entries, ascending, as they were published."""
    if base.version > FORMAT_VERSION:
        raise StateFormatError(
            f"base of backend {base.backend!r}: version {base.version} is newer than supported {FORMAT_VERSION}; "
            "upgrade tidegate or restore an older checkpoint"
        )
    chunk = dict(base.files).get(_FILE)
    if chunk is None:
        raise StateCorruptError(
            f"base of backend {base.backend!r} is incomplete; got files {[name for name, _ in base.files]}; "
            f"expected {_FILE!r}; restore an older checkpoint"
        )
    return read_segment(context.files, chunk).entries


def _unhurried(addresses: Iterable[Address]) -> Iterator[list[Address]]:
    """All addresses in parts of a fraction of a millisecond, with a rest after each.

    A thread that never waits takes half of the interpreter from the one that works on records. One that does so for
    a moment has to ask for the interpreter again, which takes five milliseconds while the other thread is busy.
    """
    iterator = iter(addresses)
    while part := list(islice(iterator, _PART)):
        yield part
        SYSTEM_CLOCK.sleep(_REST_S)


def _newest(layers: Sequence[_Layer], at: Address) -> bytes | None:
    for layer in reversed(layers):
        if at in layer:
            return layer[at]
    return None


def _write_through(bottom: _Layer, written: _Layer) -> None:
    """Below the lowest layer nothing is hidden, so a removal needs no mark."""
    if None not in written.values():
        bottom.update(written)
        return
    for at, value in written.items():
        if value is None:
            bottom.pop(at, None)
        else:
            bottom[at] = value
