"""Program parameters, from the command line, a mapping or a file.

Example:
    >>> parameters = ParameterTool.from_args(["--input", "orders", "--limit", "3", "--verbose"])
    >>> parameters.get("input"), parameters.get_int("limit"), parameters.get("verbose"), parameters.get("output", "-")
    ('orders', 3, '', '-')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tidegate.errors import ConfigError

__all__ = ["ParameterTool"]

T = TypeVar("T")

_TRUTHS = {"true": True, "false": False, "": True}


class ParameterTool:
    """Text by name, read as what the program needs."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    @staticmethod
    def from_args(args: Sequence[str]) -> ParameterTool:
        """From `--name value`, `-name value`, and `--name` alone, which is an empty text.

        Raises:
            ConfigError: a value stands without a name.
        """
        values: dict[str, str] = {}
        name: str | None = None
        for arg in args:
            if arg.startswith("-") and not _is_number(arg):
                name = arg.lstrip("-")
                values[name] = ""
            elif name is not None:
                values[name], name = arg, None
            else:
                raise ConfigError(f"argument {arg!r} has no name; expected --name before it")
        return ParameterTool(values)

    @staticmethod
    def from_map(values: Mapping[str, str]) -> ParameterTool:
        """From a mapping."""
        return ParameterTool(values)

    @staticmethod
    def from_properties_file(path: str) -> ParameterTool:
        """From a file with a line `name=value` for each; `#` begins a comment line.

        Raises:
            ConfigError: it cannot be read.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ConfigError(f"properties file {path} cannot be read: {error}") from error
        pairs = [line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return ParameterTool({name.strip(): value.strip() for name, _, value in pairs})

    def has(self, key: str) -> bool:
        """Whether it was given."""
        return key in self._values

    def get(self, key: str, default_value: str | None = None) -> str | None:
        """A parameter as it was given."""
        return self._values.get(key, default_value)

    def get_required(self, key: str) -> str:
        """A parameter that must be there.

        Raises:
            ConfigError: it is not.
        """
        if key not in self._values:
            given = ", ".join(sorted(self._values)) or "none"
            raise ConfigError(f"parameter {key!r} is missing; given are {given}")
        return self._values[key]

    def get_int(self, key: str, default_value: int | None = None) -> int | None:
        """A parameter as an integer; raises ConfigError if it is none."""
        return self._as(int, key, default_value)

    def get_float(self, key: str, default_value: float | None = None) -> float | None:
        """A parameter as a float; raises ConfigError if it is none."""
        return self._as(float, key, default_value)

    def get_boolean(self, key: str, default_value: bool | None = None) -> bool | None:
        """A parameter as a truth value, true if it was given alone; raises ConfigError if it is none."""
        return self._as(lambda text: _TRUTHS[text.lower()], key, default_value)

    def to_map(self) -> dict[str, str]:
        """All parameters."""
        return dict(self._values)

    def _as(self, read: Callable[[str], T], key: str, default_value: T | None) -> T | None:
        if key not in self._values:
            return default_value
        try:
            return read(self._values[key])
        except (ValueError, KeyError) as error:
            raise ConfigError(
                f"parameter {key!r} is {self._values[key]!r}, which cannot be converted to the requested type"
            ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
