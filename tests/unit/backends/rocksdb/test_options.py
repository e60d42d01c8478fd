"""What options of RocksDB do that a job does not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.rocksdb import RocksDBBackend, RocksDBOptions
from tidegate.backends.spi import BackendContext, SupportsMetrics
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.options import Layer, load

KEY = "state.backend.rocksdb."


def context(place: Path, **options: Any) -> BackendContext:
    place.mkdir()
    files = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)
    return BackendContext(place, files, {f"{KEY}{key}": value for key, value in options.items()})


def size_of_data(place: Path, **options: Any) -> int:
    """The bytes of the data files of some thousand small entries."""
    opened = RocksDBBackend().open(None, KeyGroupRange(0, 8), context(place, **options))
    opened.apply([(b"\0\1" + number.to_bytes(4), b"x") for number in range(20_000)])
    opened.cut(CheckpointId(1))
    opened.close()
    return sum(path.stat().st_size for path in place.rglob("cut-*/*.sst"))


def test_bits_per_key_decide_how_large_the_filter_is(tmp_path: Path) -> None:
    few = size_of_data(tmp_path / "few", **{"bloom-filter.bits-per-key": 4})
    many = size_of_data(tmp_path / "many", **{"bloom-filter.bits-per-key": 40})
    none = size_of_data(tmp_path / "none", **{"use-bloom-filter": False})

    assert none < few < many
    assert many - few == pytest.approx(20_000 * 36 / 8, rel=0.1)


def test_compression_decides_how_large_files_are(tmp_path: Path) -> None:
    plain = size_of_data(tmp_path / "plain", **{"compression.per.level": "NO_COMPRESSION"})
    packed = size_of_data(tmp_path / "packed", **{"compression.per.level": "ZSTD_COMPRESSION"})

    assert packed < plain * 0.8


@pytest.mark.parametrize(("level", "events"), [("INFO_LEVEL", True), ("ERROR_LEVEL", False)])
def test_log_level_says_whether_events_are_logged(tmp_path: Path, level: str, events: bool) -> None:
    place = context(tmp_path / "place", **{"log.level": level})
    opened = RocksDBBackend().open(None, KeyGroupRange(0, 8), place)
    opened.apply([(b"\0\1a", b"x")])
    opened.cut(CheckpointId(1)).release()

    assert list(opened.scan(b"", b"\xff")) == [(b"\0\1a", b"x")]
    opened.close()
    log = (place.directory / "db/LOG").read_text(encoding="utf-8")
    assert ("EVENT_LOG_v1" in log) is events


def test_metrics_tell_figures_and_after_the_end_the_last_ones(tmp_path: Path) -> None:
    switched = {"metrics.bytes-written": True, "metrics.estimate-num-keys": "true"}
    opened = RocksDBBackend().open(None, KeyGroupRange(0, 8), context(tmp_path / "db", **switched))
    assert isinstance(opened, SupportsMetrics)
    figures = opened.metrics()
    assert {name: tell() for name, tell in figures.items()} == {"estimate-num-keys": 0, "bytes-written": 0}

    opened.apply([(b"\0\1a", b"x" * 1_000)])
    opened.cut(CheckpointId(1))
    opened.close()

    assert figures["estimate-num-keys"]() == 1
    assert figures["bytes-written"]() > 1_000


def test_a_size_that_is_set_is_stronger_than_a_share_of_managed_memory(tmp_path: Path) -> None:
    options = load(RocksDBOptions, Layer("settings", {KEY + "writebuffer.size": "3 mb"}))

    assert options.write_buffer_bytes == 3 * 1024 * 1024
    assert options.memory(64) == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"compaction.style": "FIFO"},
            r"compaction\.style' in .* got 'FIFO'; expected one of 'level', 'universal'",
        ),
        ({"compression.per.level": "LZ5"}, r"got 'LZ5'; expected a list of one of 'no_compression'"),
        ({"compression.per.level": ""}, "names 0 levels; expected 1 to 7"),
        ({"thread.num": 0}, r"thread\.num' is out of range; got 0; expected at least 1"),
        ({"files.open": 0}, r"files\.open' is out of range; got 0; expected -1 or at least 1"),
    ],
    ids=["fifo", "compression", "no level", "threads", "files"],
)
def test_values_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(RocksDBOptions, Layer("settings", {f"{KEY}{key}": value for key, value in options.items()}))
