"""Configuration objects of PyFlink: str values by key, converted to a requested type.

Example:
    >>> configuration = Configuration().set_integer("parallelism.default", 2).set_boolean("execution.fresh", True)
    >>> configuration.get_integer("parallelism.default", 1), configuration.get_string("execution.fresh", "")
    (2, 'true')
    >>> ConfigOptions.key("rate").int_type().default_value(5)
    ConfigOption(key='rate', default_value=5)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from tidegate.errors import ConfigError

__all__ = ["ConfigOption", "ConfigOptions", "Configuration"]

T = TypeVar("T")

_TUNING = "python."
"""Keys for the exchange between the JVM and Python workers: accepted and ignored, because there is no JVM."""


class Configuration:
    """Settings by key."""

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, str] = {} if other is None else other.to_dict()

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        """The settings of a mapping."""
        made = cls()
        for key, value in map.items():
            made._set(key, value)
        return made

    def get_string(self, key: str, default_value: str) -> str:
        """A setting as it stands."""
        return self._values.get(key, default_value)

    def set_string(self, key: str, value: str) -> Self:
        """Set a text."""
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """A setting as an integer."""
        return self._read(key, default_value, int, "an integer")

    def set_integer(self, key: str, value: int) -> Self:
        """Set an integer."""
        return self._set(key, str(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """A setting as true or false."""
        return self._read(key, default_value, _truth, "true or false")

    def set_boolean(self, key: str, value: bool) -> Self:
        """Set true or false."""
        return self._set(key, str(value).lower())

    def get_float(self, key: str, default_value: float) -> float:
        """A setting as a float."""
        return self._read(key, default_value, float, "a number")

    def set_float(self, key: str, value: float) -> Self:
        """Set a float."""
        return self._set(key, repr(float(value)))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """A setting as bytes."""
        return self._read(key, default_value, bytearray.fromhex, "hexadecimal digits")

    def set_bytearray(self, key: str, value: bytearray) -> Self:
        """Set bytes."""
        return self._set(key, value.hex())

    def key_set(self) -> set[str]:
        """The keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Whether a key is set."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Forget a setting; whether there was one."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Self:
        """Take over all settings of another configuration, their keys behind a prefix."""
        for key, value in other.to_dict().items():
            self._set((prefix or "") + key, value)
        return self

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Put all settings into a dictionary."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """All settings."""
        return dict(self._values)

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """The items of a list as Flink writes it: `a;b`, or `['a', 'b']`."""
        if value.startswith("["):
            return [str(item) for item in ast.literal_eval(value)]
        return [item for item in value.split(";") if item]

    def settings(self) -> dict[str, str]:
        """What an environment takes of it."""
        return {key: value for key, value in self._values.items() if not key.startswith(_TUNING)}

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)

    def _set(self, key: str, value: str) -> Self:
        given: tuple[object, object] = key, value
        if not all(isinstance(text, str) for text in given):
            raise ConfigError(f"setting {key!r} is {value!r}; expected a str; use the method for its type")
        self._values[key] = value
        return self

    def _read(self, key: str, default: T, read: Callable[[str], T], expected: str) -> T:
        if key not in self._values:
            return default
        try:
            return read(self._values[key])
        except (ValueError, KeyError) as error:
            raise ConfigError(f"setting {key!r} is {self._values[key]!r}; expected {expected}") from error


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A key with a type and a default value."""

    key: str
    default_value: T | None = None


@dataclass(frozen=True)
class ConfigOptions:
    """Where options begin: `ConfigOptions.key("rate").int_type().default_value(5)`."""

    name: str

    @staticmethod
    def key(key: str) -> ConfigOptions:
        """An option without a type yet."""
        return ConfigOptions(key)

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """It is true or false."""
        return TypedConfigOptionBuilder(self.name)

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """It is an integer."""
        return TypedConfigOptionBuilder(self.name)

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """It is an integer."""
        return TypedConfigOptionBuilder(self.name)

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """It is a number."""
        return TypedConfigOptionBuilder(self.name)

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """It is a number."""
        return TypedConfigOptionBuilder(self.name)

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """It is a text."""
        return TypedConfigOptionBuilder(self.name)


@dataclass(frozen=True)
class TypedConfigOptionBuilder(Generic[T]):
    """An option with a type."""

    name: str

    def default_value(self, value: T) -> ConfigOption[T]:
        """The default value."""
        return ConfigOption(self.name, value)

    def no_default_value(self) -> ConfigOption[T]:
        """Without a default value."""
        return ConfigOption(self.name)


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]
