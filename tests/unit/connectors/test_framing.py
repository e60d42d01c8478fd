"""The bytes in front of messages, as Confluent documents them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidegate.connectors.formats.framing import framed, indexes, unframed
from tidegate.errors import RecordError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (None, b"\x00\x00\x00\x01\x02"),
        ((0,), b"\x00\x00\x00\x01\x02\x00"),
        ((1,), b"\x00\x00\x00\x01\x02\x02\x02"),
        ((1, 0), b"\x00\x00\x00\x01\x02\x04\x02\x00"),
        ((100,), b"\x00\x00\x00\x01\x02\x02\xc8\x01"),
    ],
    ids=["no path", "first type", "second type", "nested type", "a position of two bytes"],
)
def test_the_head_of_a_message_is_as_documented(path: tuple[int, ...] | None, expected: bytes) -> None:
    assert framed(258, path) == expected


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9), st.binary())
def test_what_is_put_in_front_is_read_again(number: int, path: list[int], payload: bytes) -> None:
    found, rest = unframed(framed(number, path) + payload)
    assert (found, indexes(rest)) == (number, (tuple(path), payload))


def test_a_message_without_a_head_is_refused() -> None:
    with pytest.raises(
        RecordError, match=r"^the message starts with byte 0x7b; expected the magic byte 0x00"
    ):
        unframed(b'{"id": 1}')
    with pytest.raises(RecordError, match=r"^the message has 3 bytes; expected a zero byte and a schema id"):
        unframed(b"\0\0\0")


def test_a_path_that_is_cut_off_or_too_long_is_refused() -> None:
    with pytest.raises(RecordError, match="message indexes are truncated"):
        indexes(b"\x04\x02")
    with pytest.raises(RecordError, match="message indexes are truncated"):
        indexes(b"\xff\xff\xff\xff\xff\xff")
    with pytest.raises(RecordError, match="has 100 message indexes; expected at most 64"):
        indexes(b"\xc8\x01")
