"""Key groups of 1,000 new keys against the bare hash of their msgpack, and no memory kept per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from benchmarks.harness import Bar, Case, Report, compare, main
from tidegate.keys import canonical_batch, key_groups

COUNT = 1_000
LIMIT = 1.5
GROUPS = 128
BATCHES = 200


MAKERS: dict[str, Callable[[int], Any]] = {
    "str": lambda number: f"customer-{number}",
    "int": lambda number: number,
    "tuple": lambda number: ("a", number),
}
BARRED = ("str", "int")


def build(rounds: int) -> Report:
    cases: list[Case] = []
    bars: list[Bar] = []
    for name, make in MAKERS.items():
        arguments = {"keys": COUNT, "type": name}
        cases += [
            Case(f"{name}, bare", bare(batches(make)), arguments, COUNT),
            Case(f"{name}, key groups", grouped(batches(make)), arguments, COUNT),
            Case(f"{name}, canonical and key groups", canonical_and_grouped(batches(make)), arguments, COUNT),
        ]
        if name in BARRED:
            bars.append(Bar(f"{name}, key groups", f"{name}, bare", LIMIT))
    return compare("keys", cases, bars, rounds=rounds, clock="cpu_s")


def batches(make: Callable[[int], Any]) -> Iterator[list[Any]]:
    """Batch after batch of different keys, made beforehand so that only their grouping is measured."""
    made = [[make(batch * COUNT + number) for number in range(COUNT)] for batch in range(BATCHES)]
    return cycle(made)


def bare(keys: Iterator[list[Any]]) -> Callable[[], object]:
    encode = msgspec.msgpack.encode
    return lambda: [xxh3_64_intdigest(encode(key)) % GROUPS for key in next(keys)]


def grouped(keys: Iterator[list[Any]]) -> Callable[[], object]:
    return lambda: key_groups(next(keys), GROUPS)


def canonical_and_grouped(keys: Iterator[list[Any]]) -> Callable[[], object]:
    return lambda: key_groups(canonical_batch(next(keys)), GROUPS)


if __name__ == "__main__":
    main(build)
