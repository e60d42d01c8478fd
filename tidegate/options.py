"""Option layers: defaults, files, environment, command line, program; later layers override earlier ones.

Options are frozen dataclasses of plain values whose fields carry a dotted key. `load` fills one from layers and
refuses unknown keys, so a misspelt setting is never ignored.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from tidegate.errors import ConfigError
from tidegate.settings import parse_setting

__all__ = [
    "Guarantee",
    "Layer",
    "PartialOptions",
    "altered",
    "as_mapping",
    "check_ranges",
    "declarations",
    "filled",
    "from_assignments",
    "from_environ",
    "from_toml",
    "guard",
    "load",
    "option",
    "options_of_components",
    "origins",
    "prefixed",
    "required",
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


def option(
    key: str, default: Any, doc: str, *, old: str | None = None, least: int = 1, shown: bool = True
) -> Any:
    """A field of an options dataclass: its dotted key, default, description, and deprecated key.

    `least` is the smallest number it takes, where it is a whole number; see `check_ranges`. What is not `shown` is left out
    where the options are printed.
    """
    metadata = {"key": key, "doc": doc, "old": old, "least": least}
    return field(default=default, repr=shown, metadata=metadata)


def required(key: str, doc: str) -> Any:
    """A field like that of `option`, without a default: `load` refuses settings that leave it open."""
    return field(metadata={"key": key, "doc": doc, "old": None, "least": 1})


def prefixed(prefix: str, doc: str) -> Any:
    """A field that takes all keys with a prefix that no other field has, by the rest of the key.

    For keys that cannot be declared, since something else names them: a client's properties, the columns of a table.
    """
    return field(default_factory=dict, metadata={"prefix": prefix, "doc": doc})


def options_of_components(declared: Callable[[], Iterable[type[Any]]]) -> Any:
    """A field for the values of options that other classes declare, by dotted key."""
    return field(default_factory=dict, metadata={"declared": declared})


def origins() -> Any:
    """A field that takes the name of the layer of each key that was set."""
    return field(default_factory=dict, compare=False, metadata={"origins": True})


def load(cls: type[T], *layers: Layer) -> T:
    """An options object from layers, the strongest first; fields no layer names keep their default.

    Raises:
        ConfigError: an unknown key, a value of the wrong type, two keys of one option in one layer, or a required option
            that no layer has.
    """
    given_keys = {key for layer in layers for key in layer.values}
    owner: Any = cls
    known = _known(owner)
    # Declarations of components are looked up only for keys that are not the class's own: a start is quicker without.
    if not given_keys <= known.keys() | {_shout(key) for key in known}:
        known = _known(owner, all_components=True)
    shouted = {_shout(key): key for key in known}
    prefixes = {
        each.metadata["prefix"]: each.name for each in dataclasses.fields(owner) if "prefix" in each.metadata
    }
    under: dict[str, dict[str, Any]] = {name: {} for name in prefixes.values()}
    found: dict[str, Any] = {}
    told: dict[str, str] = {}
    for layer in reversed(layers):
        said: dict[str, str] = {}
        for given, value in layer.values.items():
            key = shouted.get(given, "") if layer.shouted else given
            if key not in known and (prefix := next(filter(given.startswith, prefixes), None)):
                under[prefixes[prefix]][given.removeprefix(prefix)] = value
                continue
            if key not in known:
                keys = {each.key for each in known.values()} | {f"{prefix}*" for prefix in prefixes}
                hint = _nearest(given, keys, layer.shouted)
                raise ConfigError(f"unknown option {given!r} in {layer.name}{hint}")
            option = known[key]
            if said.setdefault(option.key, given) != given:
                raise ConfigError(
                    f"options {said[option.key]!r} and {given!r} in {layer.name} are the same option; got both; "
                    "expected one of them"
                )
            label = f"option {key!r} in {layer.name}"
            found[option.key] = parse_setting(value, option.type, option.name, label)
            told[option.key] = layer.name
    _check_required(owner, found, layers)
    own = {known[key].name: value for key, value in found.items() if known[key].owner is cls} | under
    others = {key: value for key, value in found.items() if known[key].owner is not cls}
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]  # a type variable cannot be bound to dataclasses
        if "declared" in each.metadata:
            own[each.name] = others
        elif "origins" in each.metadata:
            own[each.name] = told
    return cls(**own)


class PartialOptions:
    """Options of a source or a sink that know which of them the program has set, so that settings can fill the others.

    Example:
        >>> @dataclass(frozen=True)
        ... class SinkOptions(PartialOptions):
        ...     pool: int = option("connector.mine.sink.pool", 5, "how many connections there are")
        >>> settings = {"connector.mine.sink.pool": 8}
        >>> filled(SinkOptions(), settings), filled(SinkOptions(pool=5), settings)
        (SinkOptions(pool=8), SinkOptions(pool=5))
    """

    chosen: frozenset[str]

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Note which fields are given; the dataclass fills them as usual."""
        made = super().__new__(cls)
        names = [each.name for each in dataclasses.fields(cls) if each.init]  # type: ignore[arg-type] # of a subclass
        made.__dict__["chosen"] = frozenset(names[: len(args)]) | named.keys()
        return made


P = TypeVar("P", bound=PartialOptions)


def altered(options: P, **changes: Any) -> P:
    """The same options with some that the program sets now."""
    made = dataclasses.replace(options, **changes)  # type: ignore[type-var] # each subclass is a dataclass
    made.__dict__["chosen"] = options.chosen | changes.keys()
    return made


def filled(options: P, values: Mapping[str, Any]) -> P:
    """The same options with `values`, by dotted key, for those that the program has not set.

    Raises:
        ConfigError: the resulting options exclude each other.
    """
    names = {key: found.name for key, found in declarations(type(options)).items()}
    changes = {names[key]: value for key, value in values.items() if names[key] not in options.chosen}
    made = dataclasses.replace(options, **changes)  # type: ignore[type-var] # each subclass is a dataclass
    made.__dict__["chosen"] = options.chosen
    return made


def declarations(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The fields of an options class that have a dotted key, by key."""
    return {found.metadata["key"]: found for found in dataclasses.fields(cls) if "key" in found.metadata}


def check_ranges(options: Any) -> None:
    """Refuse whole numbers that are less than their declaration allows; for the `__post_init__` of options.

    Raises:
        ConfigError: naming the key.
    """
    for key, found in declarations(type(options)).items():
        value, least = getattr(options, found.name), found.metadata["least"]
        if type(value) is int and value < least:
            raise ConfigError(f"option {key!r} is out of range; got {value}; expected at least {least}")


def as_mapping(options: Any) -> dict[str, Any]:
    """The values of an options object by dotted key."""
    return {key: getattr(options, found.name) for key, found in declarations(type(options)).items()}


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
    """The variables with the prefix: TIDEGATE_STATE_BACKEND sets state.backend."""
    values = {name.removeprefix(prefix): value for name, value in environ.items() if name.startswith(prefix)}
    return Layer("environment", values, shouted=True)


def from_toml(path: Path) -> Layer:
    """A TOML file; nested tables become dotted keys.

    Raises:
        ConfigError: the file cannot be read or is not TOML.
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
            raise ConfigError(f"invalid option on the command line; got {assignment!r}; expected key=value")
        values[key.strip()] = value.strip()
    return Layer("command line", values)


def _check_required(cls: type[Any], found: Mapping[str, Any], layers: Sequence[Layer]) -> None:
    """Refuse settings without a value for an option that has no default."""
    declared = declarations(cls).items()
    missing = [
        repr(key) for key, each in declared if each.default is dataclasses.MISSING and key not in found
    ]
    if missing:
        raise ConfigError(
            f"required {'option' if len(missing) == 1 else 'options'} {', '.join(missing)} missing in "
            f"{', '.join(layer.name for layer in layers)}; expected a value for each"
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """The option of a key; `owner` is the class that is loaded, or another one that declares it."""

    key: str
    name: str
    type: Any
    owner: type[Any]


@cache
def _known(cls: type[Any], *, all_components: bool = False) -> Mapping[str, _Known]:
    """By dotted key, present or of older programs; the class's own keys come first."""
    found: dict[str, _Known] = {}
    lists = [each.metadata["declared"] for each in dataclasses.fields(cls) if "declared" in each.metadata]
    others = (other for declared in lists if all_components for other in declared())
    for owner in (cls, *others):
        hints = get_type_hints(owner)
        for key, each in declarations(owner).items():
            option = _Known(key, each.name, hints[each.name], owner)
            for name in filter(None, (key, each.metadata["old"])):
                found.setdefault(name, option)
    return found


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
