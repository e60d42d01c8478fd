"""In-memory materialisation of the heap and filesystem backends, which differ only in where a base is written.

A base is a row of segment files, ascending, so neither writing nor reading it takes a copy of all state in memory.

A cut costs nothing that grows with the state: it keeps the present layers and puts an empty one on top, which takes
the later writes until every cut is released. Then the layers become one again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Final, TypeAlias, cast

from tidegate.backends.heap.order import Order
from tidegate.backends.keyed.address import GROUP_BYTES, range_bounds
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

FORMAT_VERSION: Final = 2
_WHOLE: Final = "entries"
"""What the only file of a base was called in version 1."""
_FILE_BYTES: Final = 4 * 1024 * 1024
_PART: Final = 500
_FEW: Final = 1_000
_WORK_S: Final = 0.001
_SHORT_REST_S: Final = 0.000_05
_LONG_REST_S: Final = 0.01

Place: TypeAlias = Callable[[SnapshotFiles, bytes], Chunk]
"""Where a backend puts the bytes of a base."""

_Layer: TypeAlias = dict[Address, bytes | None]
_DICT_ITEMS: Final = type(_Layer().items())


class MemoryMaterialisation(Materialisation):
    """Entries in dictionaries, the newest on top; sorted only for a scan."""

    def __init__(self, backend: str, place: Place, entries: Iterable[Entry]) -> None:
        self._backend = backend
        self._place = place
        self._layers: list[_Layer] = [dict(entries)]
        self._cuts: set[_MemoryCut] = set()
        self._order: Order | None = None
        """The addresses at the last scan; None before the first scan."""
        self._written: dict[Address, None] = {}
        """Those written since then."""

    def get_many(self, addresses: Sequence[Address]) -> list[bytes | None]:
        """The bytes of each address."""
        return list(_newest(self._layers, addresses))

    def apply(self, entries: Iterable[Entry]) -> None:
        """Write into the top layer."""
        self._fold()
        # Copying a dictionary takes a twentieth of the time that making one of its items takes.
        self._write(entries.mapping.copy() if isinstance(entries, _DICT_ITEMS) else dict(entries))

    def _write(self, written: dict[Address, bytes | None]) -> None:
        if self._order is not None:
            self._written.update(dict.fromkeys(written))
            if len(self._written) > _FEW + len(self._order) // 4:
                self._order = None  # sorting everything again costs no more than single insertions
                self._written.clear()
        if len(self._layers) == 1:
            _write_through(self._layers[0], written)
        else:
            self._layers[-1].update(written)

    def scan(
        self, first: Address, last: Address, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Address, bytes]]:
        """Entries of a range, of the moment of the call."""
        addresses = self._ordered().between(first, last, reverse=reverse, limit=limit)
        values = cast("list[bytes]", list(_newest(self._layers, addresses)))  # all of them are there
        return zip(addresses, values, strict=True)

    def cut(self, checkpoint: CheckpointId) -> Cut:
        """Freeze the present layers."""
        self._fold()
        cut = _MemoryCut(self._backend, self._place, tuple(self._layers), self._cuts)
        self._cuts.add(cut)
        self._layers.append({})
        return cut

    def _ordered(self) -> Order:
        """All addresses in order; only addresses written since the last scan are sorted."""
        if self._order is None:
            # In the order of the layers: that of a restored one is the right one already.
            everything = merged(self._layers)
            self._order = Order(sorted(at for at, value in everything.items() if value is not None))
        elif self._written:
            order = self._order
            for at, value in zip(self._written, _newest(self._layers, list(self._written)), strict=True):
                if value is None:
                    order.remove(at)
                else:
                    order.add(at)
        self._written.clear()
        return self._order

    def _fold(self) -> None:
        """Make one layer of all, unless a cut still reads some of them in another thread."""
        if self._cuts or len(self._layers) == 1:
            return
        bottom, *rest = self._layers
        for layer in rest:
            _write_through(bottom, layer)
        self._layers = [bottom]


class _MemoryCut(Cut):
    """Layers that are no longer written to."""

    def __init__(
        self, backend: str, place: Place, layers: tuple[_Layer, ...], open_cuts: set[_MemoryCut]
    ) -> None:
        self._backend = backend
        self._place = place
        self._layers = layers
        self._open_cuts = open_cuts
        self._pace = _Pace()

    def publish(self, files: SnapshotFiles, confirmed: BaseHandle | None) -> BaseHandle:
        """Write all entries, in files of a few megabytes."""
        chunks = [self._place(files, data) for data in encode_parts(self._sorted_parts(), _FILE_BYTES)]
        return BaseHandle(self._backend, FORMAT_VERSION, tuple(zip(_names(len(chunks)), chunks, strict=True)))

    def release(self) -> None:
        """Let the layers be folded."""
        self._layers = ()
        self._open_cuts.discard(self)

    def _sorted_parts(self) -> Iterator[list[Entry]]:
        """Everything in order, in parts."""
        groups: defaultdict[bytes, list[Address]] = defaultdict(list)
        for layer in self._layers:
            for part in self._pace.parts(layer):
                for at in part:
                    groups[at[:GROUP_BYTES]].append(at)
        for group in sorted(groups):
            for part in self._pace.parts(self._sorted(groups.pop(group))):
                entries = zip(part, _newest(self._layers, part), strict=True)
                yield [entry for entry in entries if entry[1] is not None]

    def _sorted(self, addresses: list[Address]) -> list[Address]:
        """In order, without doubles. Sorting parts first leaves little to do for the one call that cannot rest."""
        ordered = sorted(chain.from_iterable(map(sorted, self._pace.parts(addresses))))
        return ordered if len(self._layers) == 1 else list(dict.fromkeys(ordered))


class _Pace:
    """Process many addresses concurrently with the record thread, in slices of a millisecond with pauses between.

    Who asks for the interpreter while the other thread is busy waits five milliseconds, and the other one then waits
    until this one has been given a core as well, which takes as long again where the machine has other things to do.
    So the busier the interpreter was found, the longer is the next rest.
    """

    def __init__(self) -> None:
        self._began = SYSTEM_CLOCK.monotonic()
        self._rest_s = _SHORT_REST_S

    def parts(self, addresses: Iterable[Address]) -> Iterator[list[Address]]:
        """All addresses; rests when there was enough work since the last time."""
        iterator = iter(addresses)
        while part := list(islice(iterator, _PART)):
            yield part
            now = SYSTEM_CLOCK.monotonic()
            if now - self._began >= _WORK_S:
                SYSTEM_CLOCK.sleep(self._rest_s)
                self._began = SYSTEM_CLOCK.monotonic()
                waited = self._began - now - self._rest_s
                self._rest_s = min(max(2 * waited, _SHORT_REST_S), _LONG_REST_S)


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
) -> Iterable[Entry]:
    """What a materialisation of `key_groups` starts with; raises as `Backend.open` does."""
    if base is None:
        return ()
    first, last = range_bounds(key_groups)
    return chain.from_iterable(_between(entries, first, last) for entries in _files(base, context))


def read_base(base: BaseHandle, context: BackendContext) -> Iterator[tuple[Address, bytes]]:
    """What `Backend.read` promises."""
    entries = chain.from_iterable(_files(base, context))
    return ((at, value) for at, value in entries if value is not None)


def _files(base: BaseHandle, context: BackendContext) -> Iterator[list[Entry]]:
    """The entries of each file, ascending, as they were published."""
    if base.version > FORMAT_VERSION:
        raise StateFormatError(
            f"base of backend {base.backend!r}: version {base.version} is newer than supported {FORMAT_VERSION}; "
            "upgrade tidegate or restore an older checkpoint"
        )
    names = [name for name, _ in base.files]
    if names not in ([_WHOLE], _names(len(names) or 1)):
        raise StateCorruptError(
            f"base of backend {base.backend!r} is incomplete; got files {names}; "
            f"expected {_names(len(names) or 1)}; restore an older checkpoint"
        )
    return (read_segment(context.files, chunk).entries for _, chunk in base.files)


def _between(entries: list[Entry], first: Address, last: Address) -> list[Entry]:
    return entries[
        bisect_left(entries, first, key=itemgetter(0)) : bisect_left(entries, last, key=itemgetter(0))
    ]


def _names(count: int) -> list[str]:
    """What the files of a base are called: each says how many there are."""
    return [f"{number} of {count}" for number in range(1, count + 1)]


def _newest(layers: Sequence[_Layer], addresses: Sequence[Address]) -> Iterable[bytes | None]:
    """What the highest layer that has an address says of it."""
    bottom, *rest = layers
    found: Iterable[bytes | None] = map(bottom.get, addresses)
    for layer in rest:
        found = map(layer.get, addresses, found)
    return found


def _write_through(bottom: _Layer, written: _Layer) -> None:
    """Below the lowest layer nothing is hidden, so a removal needs no mark."""
    if all(written.values()):
        bottom.update(written)
        return
    for at, value in written.items():
        if value is None:
            bottom.pop(at, None)
        else:
            bottom[at] = value
