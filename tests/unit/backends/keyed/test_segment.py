from __future__ import annotations

from pathlib import Path

import pytest
import xxhash

from tidegate.backends.keyed.segment import (
    FORMAT_VERSION,
    Segment,
    decode_segment,
    encode_changes,
    encode_parts,
    encode_segment,
)
from tidegate.backends.keyed.table import StateEntry
from tidegate.errors import StateCorruptError, StateFormatError

GOLDEN = Path(__file__).parents[3] / "golden" / "backends"
SEGMENT = Segment(
    (
        StateEntry("count", "value", 0, 0, "long", "msgspec", 1),
        StateEntry("items", "value", 0, 1, "any", "self-describing", 1),
    ),
    [(b"\0\1\0\0key\0\0\0\0\0\0", b"\x92\xc4\1\3\xc0"), (b"\0\2\0\0gone\0\0\0\0\0\0", None)],
)


def test_a_segment_survives_its_bytes() -> None:
    assert decode_segment(encode_segment(SEGMENT), "one") == SEGMENT


ORDERED = Segment(
    (*SEGMENT.table, StateEntry("by time", "ordered_map", 18, 2, "of long to string", "msgspec", 1)),
    [(b"\0\1\0\x12key\0\0\0\0\x21\7\0\0", b"\xa1a"), *SEGMENT.entries],
)
GOLDEN_SEGMENTS = {1: SEGMENT, 2: SEGMENT, 3: ORDERED}


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_every_past_version_still_loads(version: int) -> None:
    golden = (GOLDEN / f"segment-v{version}.bin").read_bytes()
    assert decode_segment(golden, "golden") == GOLDEN_SEGMENTS[version]


@pytest.mark.parametrize("version", [2, 3])
def test_this_version_writes_the_golden_bytes(version: int) -> None:
    golden = (GOLDEN / f"segment-v{version}.bin").read_bytes()
    assert golden == encode_segment(GOLDEN_SEGMENTS[version])
    assert golden == encode_changes(GOLDEN_SEGMENTS[version].table, dict(GOLDEN_SEGMENTS[version].entries))


def test_only_what_an_earlier_version_cannot_hold_is_written_in_a_newer_one() -> None:
    assert [int.from_bytes(encode_segment(each)[4:6], "big") for each in (SEGMENT, ORDERED)] == [2, 3]


def test_there_is_a_file_even_for_nothing() -> None:
    assert list(encode_parts([], 100)) == [encode_segment(Segment((), []))]


@pytest.mark.parametrize("limit", [1, 60, 10_000])
def test_parts_come_back_from_their_files_in_order(limit: int) -> None:
    parts = [[(b"%d %d" % (part, n), b"value") for n in range(part % 3)] for part in range(20)]
    files = [decode_segment(data, "file") for data in encode_parts(parts, limit)]
    assert [entry for file in files for entry in file.entries] == [entry for part in parts for entry in part]
    assert all(file.table == () for file in files)


def test_every_changed_byte_is_noticed() -> None:
    good = encode_segment(SEGMENT)
    for position in range(len(good)):
        bad = good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]
        with pytest.raises((StateCorruptError, StateFormatError), match="state segment run/7"):
            decode_segment(bad, "run/7")


def test_every_truncation_is_noticed() -> None:
    good = encode_segment(SEGMENT)
    for length in range(len(good)):
        with pytest.raises(StateCorruptError, match="state segment run/7 is damaged; got"):
            decode_segment(good[:length], "run/7")


def test_a_newer_version_is_refused() -> None:
    newer = bytearray(encode_segment(SEGMENT))
    newer[5] = FORMAT_VERSION + 1
    with pytest.raises(StateFormatError, match="segment run/7: format version 4 is newer than supported 3"):
        decode_segment(bytes(newer), "run/7")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda data: data[:13] + b"\7" + data[14:], "got 2 entries; expected 7", id="count"),
        pytest.param(lambda data: data[:14] + b"\xc1" + data[15:], "its body cannot be decoded", id="body"),
    ],
)
def test_wrong_content_under_a_right_checksum_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    content = change(encode_segment(SEGMENT)[:-8])
    with pytest.raises(StateCorruptError, match=message):
        decode_segment(content + xxhash.xxh3_64_digest(content), "run/7")
