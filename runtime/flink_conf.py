"""Flink configuration files: translates the supported keys and explains why the others have no effect.

A file has one `key: value` per line. Every key that Flink 1.4 documents, and every key in the default file of newer
distributions, is either mapped to a tidegate setting or ignored for a stated reason; an unknown key is an error.

Example:
    >>> lines = ["# a cluster", "taskmanager.memory.size: 512", "akka.ask.timeout: 10s  # ten"]
    >>> for setting in read_lines("flink-conf.yaml", lines):
    ...     print(setting.key, setting.status, setting.to, setting.given)
    taskmanager.memory.size mapped taskmanager.memory.managed.size 512 mb
    akka.ask.timeout ignored None None
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from tidegate.components import declared_classes
from tidegate.errors import ConfigError
from tidegate.options import Layer, declarations
from tidegate.runtime.options import JobOptions
from tidegate.settings import parse_setting

__all__ = [
    "FlinkKey",
    "FlinkSetting",
    "Status",
    "flink_keys",
    "read_file",
    "read_layer",
    "read_lines",
    "translated",
]

Status = Literal["supported", "mapped", "ignored"]


@dataclass(frozen=True, slots=True)
class FlinkKey:
    """A Flink key: the format of its value, and the tidegate key or the reason why there is none."""

    name: str
    kind: str
    to: str | None = None
    why: str | None = None

    @property
    def status(self) -> Status:
        """Whether it is mapped or ignored."""
        return "ignored" if self.to is None else "supported" if self.to == self.name else "mapped"


@dataclass(frozen=True, slots=True)
class FlinkSetting:
    """A line of a file: `given` is the value for the tidegate setting `to`; None if there is none or it is the default."""

    key: str
    value: str
    status: Status
    to: str | None
    given: str | None
    why: str | None = None


@cache
def flink_keys() -> Mapping[str, FlinkKey]:
    """All known Flink keys, by name."""
    table = tomllib.loads(files("tidegate.runtime").joinpath("flink_conf.toml").read_text(encoding="utf-8"))
    mapped = {name: FlinkKey(name, entry["kind"], to=entry["to"]) for name, entry in table["mapped"].items()}
    ignored = {
        name: FlinkKey(name, kind, why=group["why"])
        for group in table["ignored"]
        for name, kind in group["keys"].items()
    }
    return mapped | ignored


def read_file(path: Path) -> list[FlinkSetting]:
    """The settings of a file.

    Raises:
        ConfigError: it cannot be read or parsed, a key is unknown or set twice, or a value is invalid.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error}") from error
    return list(read_lines(str(path), lines))


def read_layer(path: Path) -> Layer:
    """The settings of a file that have an effect; a warning names the others; raises as `read_file` does."""
    return _counting(str(path), read_file(path))


def translated(layer: Layer) -> Layer:
    """A layer with Flink keys translated to tidegate keys; a warning names those without effect.

    Raises:
        ConfigError: a value is invalid.
    """
    theirs = [key for key in layer.values if key in flink_keys() and key not in _ours() and not layer.shouted]
    if not theirs:
        return layer
    own = {key: value for key, value in layer.values.items() if key not in theirs}
    taken = _counting(layer.name, [_setting(key, str(layer.values[key]), layer.name) for key in theirs])
    if both := own.keys() & taken.values.keys():
        raise ConfigError(
            f"{layer.name} sets {min(both)!r} twice, with Flink's key and with tidegate's; expected one of them; remove the other"
        )
    return Layer(layer.name, own | dict(taken.values))


def read_lines(name: str, lines: Iterable[str]) -> Iterator[FlinkSetting]:
    """Settings in the order of their lines; raises as `read_file` does, naming the line."""
    said: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = _COMMENT.sub("", line).rstrip()
        if not text:
            continue
        where = f"{name}, line {number}"
        key, colon, value = text.partition(":")
        if not colon or key != key.strip() or not value.strip():
            raise ConfigError(
                f"{where} cannot be parsed; got {line!r}; expected 'key: value' without indentation"
            )
        setting = _setting(key, _unquoted(value.strip()), where)
        meant = setting.to or key
        if meant in said:
            raise ConfigError(
                f"{where} sets {meant!r} a second time; got {said[meant]!r} and {key!r}; expected one of them"
            )
        said[meant] = key
        yield setting


def _counting(name: str, settings: Sequence[FlinkSetting]) -> Layer:
    ignored = sorted(each.key for each in settings if each.status == "ignored")
    if ignored:
        shown = ", ".join(ignored)
        warnings.warn(
            f"settings without effect in tidegate, see `tidegate config`: {shown} in {name}",
            RuntimeWarning,
            stacklevel=4,
        )
    return Layer(name, {each.to: each.given for each in settings if each.to and each.given})


def _setting(key: str, value: str, where: str) -> FlinkSetting:
    known, ours = flink_keys().get(key), _ours()
    if known is None and key not in ours:
        near = get_close_matches(key, {*flink_keys(), *ours}, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; tidegate config lists the known keys"
        raise ConfigError(f"unknown option {key!r} in {where}{hint}")
    if known is None:
        known = FlinkKey(key, "text", to=key)
    # A distributed configuration file contains `client.rpc.port: client.rpc.port`.
    given = None if value == key else _KINDS[known.kind](value, f"option {key!r} in {where}")
    return FlinkSetting(key, value, known.status, known.to, given if known.to else None, known.why)


@cache
def _ours() -> frozenset[str]:
    classes: list[type[Any]] = [JobOptions, *declared_classes()]
    fields = [each for cls in classes for each in declarations(cls).values()]
    names = (name for each in fields for name in (each.metadata["key"], each.metadata["old"]))
    return frozenset(name for name in names if name is not None)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _number(value: str, label: str) -> str:
    return str(parse_setting(value, int, "", label))


def _truth(value: str, label: str) -> str:
    return str(parse_setting(value, bool, "", label)).lower()


def _share(value: str, label: str) -> str:
    share = float(parse_setting(value, float, "", label))
    if not 0 <= share <= 1:
        raise ConfigError(f"{label} is invalid; got {value!r}; expected a fraction between 0 and 1")
    return value


def _duration(unit: str) -> Callable[[str, str], str | None]:
    def read(value: str, label: str) -> str | None:
        if value.lower() == "inf":
            return None
        spelled = f"{value} {unit}" if value.lstrip("-").isdigit() else value
        return f"{parse_setting(spelled, int, '_ms', label)} ms"

    return read


def _size(unit: str) -> Callable[[str, str], str | None]:
    def read(value: str, label: str) -> str | None:
        if value == "-1":
            return None
        spelled = f"{value} {unit}" if value.isdigit() else value
        parse_setting(spelled, int, "_bytes", label)
        return spelled

    return read


def _ports(value: str, label: str) -> str:
    first, dash, last = value.partition("-")
    ends = [first, last] if dash else [first]
    if not all(end.strip().isdigit() and int(end) < 65_536 for end in ends) or int(ends[0]) > int(ends[-1]):
        raise ConfigError(f"{label} is invalid; got {value!r}; expected a port or a range such as 8081-8090")
    return ends[0].strip()


def _list(value: str, label: str) -> str:
    if not all(part.strip() for part in value.split(",")):
        raise ConfigError(f"{label} is invalid; got {value!r}; expected values separated by commas")
    return value


def _text(value: str, label: str) -> str:
    return value


_COMMENT: Final = re.compile(r"(^|\s)#.*")
_KINDS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "number": _number,
    "truth": _truth,
    "share": _share,
    "milliseconds": _duration("ms"),
    "seconds": _duration("s"),
    "bytes": _size("b"),
    "megabytes": _size("mb"),
    "ports": _ports,
    "list": _list,
    "text": _text,
}
"""How the values of each kind are parsed: `milliseconds` is the unit of a bare number, and so on; `Inf` and -1 mean no limit."""
