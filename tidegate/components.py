"""Registry of component options: the entry points `tidegate.options`, named `<kind>.<name>`.

A start with an option of any component reads all declarations, so their modules import no client library.

Example:
    >>> owner_of("state.backend.heap.max-state").title
    'backend heap'
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, TypeVar, get_args, runtime_checkable

from tidegate.errors import ConfigError
from tidegate.options import Layer, declarations, load

__all__ = [
    "Component",
    "Kind",
    "OptionsOf",
    "SupportsOptions",
    "components",
    "declared_classes",
    "options_for",
    "owner_of",
    "with_options",
]

Kind = Literal["backend", "storage", "connector", "format", "executor"]

GROUP: Final = "tidegate.options"


OptionsOf: TypeAlias = Callable[[str], Mapping[str, Any]]
"""Returns the settings of a component `<kind>.<name>`, by dotted key."""


@runtime_checkable
class SupportsOptions(Protocol):
    """Ability of a description, of a program or a URL: settings fill the options that the description leaves open."""

    def with_options(self, options_of: OptionsOf) -> Self:
        """The same description with the settings that `options_of` has for its component, and for what it holds.

        Called in the launching process before anything is opened, perhaps several times; does no I/O and changes nothing.
        Options in the description override settings. A component that `options_of` is called for counts as used.

        Raises:
            ConfigError: an option is invalid.
        """
        ...


D = TypeVar("D")


def with_options(description: D, options_of: OptionsOf) -> D:
    """A description with its settings; the same object if it has no options."""
    return description.with_options(options_of) if isinstance(description, SupportsOptions) else description


@dataclass(frozen=True, slots=True)
class Component:
    """A component and the frozen dataclass that declares its options."""

    kind: Kind
    name: str
    declared: type[Any]

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"{self.kind} {self.name}"

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `values`, by dotted key, that are its own."""
        return {key: value for key, value in values.items() if key in declarations(self.declared)}

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse options in `values` that exclude each other.

        Raises:
            ConfigError: they do not.
        """
        load(self.declared, Layer(f"the options of {self.title}", self.given(values)))


@cache
def components() -> Mapping[str, Component]:
    """All that declare options, by the name of their entry point, `<kind>.<name>`.

    One that cannot be loaded is left out with a warning: a broken package must not stop jobs that do not use it.

    Raises:
        ConfigError: two components declare one key.
    """
    found: dict[str, Component] = {}
    owners: dict[str, Component] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        component = _loaded(point)
        if component is None:
            continue
        found[point.name] = component
        for key in declarations(component.declared):
            if owners.setdefault(key, component) is not component:
                raise ConfigError(
                    f"option {key!r} is declared by {owners[key].title} and by {component.title}; expected one of "
                    "them; uninstall one of the packages, or rename its option"
                )
    return found


def declared_classes() -> list[type[Any]]:
    """The options classes of all components."""
    return [component.declared for component in components().values()]


def owner_of(key: str) -> Component:
    """The component that declares a key.

    Raises:
        KeyError: none does.
    """
    for component in components().values():
        if key in declarations(component.declared):
            return component
    raise KeyError(key)


def options_for(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values`, by dotted key, that a component `<kind>.<name>` declares; none for one that declares nothing.

    Example:
        >>> options_for("backend.heap", {"state.backend.heap.max-state": 5, "s3.region": "eu-west-1"})
        {'state.backend.heap.max-state': 5}
    """
    component = components().get(name) if values else None
    return {} if component is None else component.given(values)


def _loaded(point: EntryPoint) -> Component | None:
    """The component of an entry point; None, with a warning, if it cannot be used."""
    kind, _, name = point.name.partition(".")
    known = next((each for each in get_args(Kind) if each == kind), None)
    try:
        declared = point.load()
        if known is None or not name:
            raise TypeError(f"its name does not start with one of {', '.join(get_args(Kind))} and a dot")
        if not (isinstance(declared, type) and dataclasses.is_dataclass(declared)):
            raise TypeError("it is not a dataclass")
    except (ImportError, AttributeError, TypeError) as error:
        warnings.warn(
            f"{GROUP} entry point {point.name!r} = {point.value!r} cannot be used: {error}; its options are unknown; "
            "repair or uninstall the package",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return Component(known, name, declared)
