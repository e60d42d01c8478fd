"""Inferred codecs with the round-trip law against plain typed msgspec without it: 1,000 five-field records.

The bar holds for every kind of record. The check of five fields costs 60 to 130 ns a record, so it is tightest where
msgspec alone is quickest: Struct and NamedTuple.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from benchmarks.harness import Bar, Case, Report, compare, main
from tidegate.serde import codec_for, exchange_codec
from tidegate.types import Types

COUNT = 1_000
LIMIT = 1.3


class Struct(msgspec.Struct):
    id: int
    name: str
    amount: float
    paid: bool
    country: str


@dataclass
class Dataclass:
    id: int
    name: str
    amount: float
    paid: bool
    country: str


@dataclass(frozen=True, slots=True)
class FrozenDataclass:
    id: int
    name: str
    amount: float
    paid: bool
    country: str


class Named(NamedTuple):
    id: int
    name: str
    amount: float
    paid: bool
    country: str


KINDS = (Struct, Dataclass, FrozenDataclass, Named)


def build(rounds: int) -> Report:
    cases: list[Case] = []
    for cls in KINDS:
        cases += record_cases(cls)
    records = [fields(index) for index in range(COUNT)]
    untyped, pickled = codec_for(None), exchange_codec(None)
    cases += [
        Case(
            "self-describing, tuples", lambda: untyped.decode_batch(untyped.encode_batch(records)), work=COUNT
        ),
        Case("pickle, tuples", lambda: pickled.decode_batch(pickled.encode_batch(records)), work=COUNT),
    ]
    bars = [Bar(f"{cls.__name__}, tidegate", f"{cls.__name__}, msgspec", LIMIT) for cls in KINDS]
    return compare("codec", cases, bars, rounds=rounds, clock="cpu_s")


def record_cases(cls: type[Any]) -> list[Case]:
    records = [cls(*fields(index)) for index in range(COUNT)]
    codec = codec_for(Types.of(cls))
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(list[cls]).decode  # type: ignore[valid-type]  # a parameter
    assert codec.decode_batch(codec.encode_batch(records)) == records
    arguments = {"records": COUNT, "fields": 5, "class": cls.__name__}
    return [
        Case(f"{cls.__name__}, msgspec", lambda: decode(encode(records)), arguments, COUNT),
        Case(
            f"{cls.__name__}, tidegate",
            lambda: codec.decode_batch(codec.encode_batch(records)),
            arguments,
            COUNT,
        ),
    ]


def fields(index: int) -> tuple[int, str, float, bool, str]:
    return index, f"customer-{index}", index * 0.5, index % 3 == 0, ("DE", "FR", "US")[index % 3]


if __name__ == "__main__":
    main(build)
