"""Files as one side of an audit: their content at a moment, divided at a checkpoint, and their URLs.

Example:
    >>> audited("/data/orders.csv?types=id:int,amount:float").format.types
    {'id': <class 'int'>, 'amount': <class 'float'>}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tidegate.connectors.files.avro import AvroFormat
from tidegate.connectors.files.columnar import OrcFormat, ParquetFormat
from tidegate.connectors.files.csv_format import CsvFormat
from tidegate.connectors.files.enumerator import remaining_splits
from tidegate.connectors.files.lines import JsonFormat, LineFormat, TextFormat
from tidegate.connectors.files.reading import FileFormat
from tidegate.connectors.files.source import RecordFileSource
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Extent, Part, Remaining
from tidegate.errors import ConfigError
from tidegate.ids import SplitId

__all__ = ["audited", "extent_of"]

_FORMATS: Final[Mapping[str, Callable[..., FileFormat]]] = {
    "text": TextFormat,
    "json": JsonFormat,
    "csv": CsvFormat,
    "parquet": ParquetFormat,
    "orc": OrcFormat,
    "avro": AvroFormat,
}
_TYPES: Final[Mapping[str, Callable[[str], Any]]] = {"int": int, "float": float, "bool": bool, "str": str}
_SUFFIXES: Final = {".jsonl": "json", ".ndjson": "json"}
_PACKED: Final = (".gz", ".bz2", ".xz")


def audited(url: str) -> RecordFileSource:
    """The files at `file:<path>` or a plain path, below it if it is a directory.

    A query may say `format` (text, json, csv, parquet, orc or avro; by default what a file's name ends with) and, for csv,
    `types` such as `id:int,amount:float`.

    Raises:
        ConfigError: the query is wrong, or no file is there to tell the format.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if unknown := asked.keys() - {"format", "types"}:
        raise ConfigError(f"unknown option {min(unknown)!r} in {url!r}; expected format or types")
    kind = asked.get("format") or _kind_of(path)
    if kind not in _FORMATS:
        raise ConfigError(f"{url!r} has format {kind!r}; expected one of {', '.join(_FORMATS)}")
    if "types" in asked and kind != "csv":
        raise ConfigError(f"{url!r} has types for format {kind!r}; expected csv")
    types = {"types": _types(asked["types"])} if "types" in asked else {}
    return RecordFileSource(path, _FORMATS[kind](**types))


def extent_of(splits: Iterable[FileSplit], file_format: FileFormat, remaining: Remaining | None) -> Extent:
    """Parts of files, divided into read and unread ones.

    Raises:
        StateFormatError: the checkpoint is not one of a file source.
    """
    left, seen = remaining_splits(remaining) if remaining is not None else ([], None)
    unit = "byte" if isinstance(file_format, LineFormat) else "row"
    before: list[Part] = []
    later: list[Part] = []
    for split in splits:
        if seen is not None and split.path not in seen:
            later.append(_part(split, split.at, split.stop, unit))
            continue
        mine = sorted((each for each in left if each.path == split.path), key=lambda each: each.at)
        before += [_part(split, start, stop, unit) for start, stop in _between(split, mine)]
        for each in mine:
            start, stop = max(split.at, each.at), min(split.stop, each.stop)
            if start < stop:
                # The position of a reader is exactly the start of a record.
                later.append(_part(split, start, stop, unit, begun=each.begun and start == each.at))
    return Extent(tuple(before), tuple(later))


def _between(split: FileSplit, left: Sequence[FileSplit]) -> Iterator[tuple[int, int]]:
    """The ranges of a part that are not left, which is in order."""
    at = split.at
    for each in left:
        if at < min(each.at, split.stop):
            yield at, min(each.at, split.stop)
        at = max(at, each.stop)
    if at < split.stop:
        yield at, split.stop


def _part(split: FileSplit, start: int, stop: int, unit: str, *, begun: bool = False) -> Part:
    cut = msgspec.structs.replace(
        split, id=SplitId(f"{split.path}:{start}"), at=start, stop=stop, begun=begun
    )
    return Part(cut, start, stop, split.path, unit)


def _kind_of(path: str) -> str:
    found = Path(path)
    if found.is_dir():
        found = next(
            (each for each in sorted(found.rglob("*")) if each.is_file() and _is_seen(each, found)), found
        )
    suffix = Path(found.stem).suffix if found.suffix in _PACKED else found.suffix
    return _SUFFIXES.get(suffix, suffix.removeprefix(".") if suffix.removeprefix(".") in _FORMATS else "text")


def _is_seen(path: Path, directory: Path) -> bool:
    return all(part[0] not in "._" for part in path.relative_to(directory).parts)


def _types(text: str) -> dict[str, Callable[[str], Any]]:
    pairs = [each.partition(":") for each in text.split(",")]
    for name, _, kind in pairs:
        if not name or kind not in _TYPES:
            raise ConfigError(
                f"invalid types {text!r} at {name}:{kind}; expected, for example, id:int,amount:float"
            )
    return {name: _TYPES[kind] for name, _, kind in pairs}
