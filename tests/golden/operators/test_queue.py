"""Queues of requests as earlier versions wrote them still load, and what is written now is what is on record."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidegate.runtime.operators.async_wait import Kept
from tidegate.serde import codec_for

FILE = Path(__file__).parent / "request-queue-1.msgpack"
VALUE = ("customer", 7)
ENTRIES = [
    Kept(codec_for(None).encode(VALUE), 1_000, 2),
    Kept(codec_for(None).encode(VALUE), None, 2),
    Kept(None, 1_000, 2),
]


def test_a_queue_of_version_1_loads() -> None:
    loaded = msgspec.msgpack.decode(FILE.read_bytes(), type=list[Kept])

    assert loaded == ENTRIES
    assert loaded[0].value is not None
    assert codec_for(None).decode(loaded[0].value) == VALUE


def test_the_version_written_now_is_on_record() -> None:
    assert msgspec.msgpack.encode(ENTRIES) == FILE.read_bytes()
