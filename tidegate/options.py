"""Settings from layers: defaults, then files, environment and command line, then the program, strongest last.

Options are frozen dataclasses of plain values whose fields carry a dotted key. `load` fills one from layers and
refuses what it does not know, so a misspelt setting never silently does nothing.

Example:
    >>> @dataclass(frozen=True)
    ... class RetryOptions:
    ...     attempts: int = option("retry.attempts", 3, "how often to try")
    ...     delay_ms: int = option("retry.delay", 1_000, "time between two tries")
    >>> load(RetryOptions, from_assignments(["retry.delay=2 s"]), Layer("file", {"retry.attempts": 5}))
    RetryOptions(attempts=5, delay_ms=2000)
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from tidegate.errors import ConfigError
from tidegate.settings import parse_setting

__all__ = [
    "Guarantee",
    "Layer",
    "as_mapping",
    "from_assignments",
    "from_environ",
    "from_toml",
    "guard",
    "load",
    "option",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings of one origin, by dotted key; the name appears in messages.

    The keys of a `shouted` layer are environment variables' names: upper case, `_` for every separator.
    """

    name: str
    values: Mapping[str, Any]
    shouted: bool = False


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The value a key must have, and the promise that depends on it."""

    value: Any
    promise: str


def option(key: str, default: Any, doc: str, *, old: str | None = None) -> Any:
    """A field of an options dataclass: its dotted key, its default, what it means, and a key of older programs."""
    return field(default=default, metadata={"key": key, "doc": doc, "old": old})


def load(cls: type[T], *layers: Layer) -> T:
    """An options object from layers, the strongest first; fields no layer names keep their default.

    Raises:
        ConfigError: a key nobody knows, a value of the wrong type, or two keys of one option in one layer.
    """
    fields, hints = _fields(cls), get_type_hints(cls)
    known = fields | _old_fields(cls)
    shouted = {_shout(key): key for key in known}
    found: dict[str, Any] = {}
    for layer in reversed(layers):
        said: dict[str, str] = {}
        for given, value in layer.values.items():
            key = shouted.get(given, "") if layer.shouted else given
            if key not in known:
                raise ConfigError(
                    f"unknown option {given!r} in {layer.name}{_nearest(given, fields, layer.shouted)}"
                )
            name = known[key]
            if said.setdefault(name, given) != given:
                raise ConfigError(
                    f"{said[name]!r} and {given!r} in {layer.name} are one option; got both; expected one of them"
                )
            found[name] = parse_setting(value, hints[name], name, f"option {key!r} in {layer.name}")
    return cls(**found)


def as_mapping(options: Any) -> dict[str, Any]:
    """The values of an options object by dotted key."""
    return {key: getattr(options, name) for key, name in _fields(type(options)).items()}


def guard(user: Mapping[str, Any], guaranteed: Mapping[str, Guarantee]) -> None:
    """Refuse user settings that would break a promise; a value that keeps it passes.

    Raises:
        ConfigError: naming the key and the promise.
    """
    for key, value in user.items():
        promised = guaranteed.get(key)
        if promised is not None and str(value).lower() != str(promised.value).lower():
            raise ConfigError(
                f"option {key!r} is fixed; got {value!r}; expected {promised.value!r}, because {promised.promise}; "
                "remove the option"
            )


def from_environ(environ: Mapping[str, str], prefix: str = "TIDEGATE_") -> Layer:
    """The variables with the prefix: TIDEGATE_STATE_BACKEND stands for state.backend."""
    values = {name.removeprefix(prefix): value for name, value in environ.items() if name.startswith(prefix)}
    return Layer("environment", values, shouted=True)


def from_toml(path: Path) -> Layer:
    """A TOML file; nested tables become dotted keys.

    Raises:
        ConfigError: the file cannot be read or is no TOML.
    """
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error}") from error
    return Layer(str(path), dict(_flatten(tables, "")))


def from_assignments(assignments: Iterable[str]) -> Layer:
    """The arguments of `-D`: `key=value` each.

    Raises:
        ConfigError: an argument without an equals sign.
    """
    values = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.strip():
            raise ConfigError(
                f"option on the command line is unclear; got {assignment!r}; expected key=value"
            )
        values[key.strip()] = value.strip()
    return Layer("command line", values)


def _fields(cls: type[Any]) -> dict[str, str]:
    """Dotted key to field name."""
    return {found.metadata["key"]: found.name for found in dataclasses.fields(cls) if "key" in found.metadata}


def _old_fields(cls: type[Any]) -> dict[str, str]:
    """Older dotted key to field name."""
    return {old: found.name for found in dataclasses.fields(cls) if (old := found.metadata.get("old"))}


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shout(key: str) -> str:
    return re.sub(r"[.\-]", "_", key).upper()


def _nearest(given: str, keys: Iterable[str], shouted: bool) -> str:
    known = {_shout(key) if shouted else key: key for key in keys}
    near = get_close_matches(given, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
