"""Import alias: `pyflink.datastream` and its siblings load tidegate's modules, so PyFlink programs run unchanged.

The alias is a folder that is on the module search path for one run. Worker processes get the same path, so modules of
the program that import PyFlink work there, too. A name that does not exist raises an error with the reason and the
remedy, from the table that `docs/migration.md` is generated from.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Final

__all__ = ["Table", "aliased", "install", "known_reason", "ours", "reason", "table"]

PREFIX: Final = "pyflink."
FOLDER: Final = Path(__file__).resolve().parent / "compat"

Table = dict[str, dict[str, str]]
"""Texts by name, for `different`, `ignored`, `refused` and `later`."""


@contextmanager
def aliased() -> Iterator[None]:
    """Import PyFlink's names as tidegate's modules inside; the import system is restored afterwards."""
    kept = {name: module for name, module in sys.modules.items() if _is_theirs(name)}
    _forget()
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        _forget()
        sys.modules.update(kept)


def install() -> None:
    """Register the import hook for PyFlink's modules; called by the module of that name."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def ours(name: str) -> str | None:
    """The tidegate module for a PyFlink module; None if there is none."""
    found = "tidegate." + name.removeprefix(PREFIX)
    try:
        return found if importlib.util.find_spec(found) is not None else None
    except ModuleNotFoundError:
        return None


def reason(name: str) -> str:
    """Why a PyFlink name is not available, and what to do."""
    return known_reason(name) or (
        "it is not a name of PyFlink's DataStream API; see docs/migration.md for what tidegate supports"
    )


def known_reason(name: str) -> str | None:
    """What the table says about an unavailable name; None if nothing."""
    parts = name.split(".")
    texts = {key: text for kind in ("refused", "later") for key, text in table()[kind].items()}
    known = [key for key in texts if covers(key, parts)]
    return texts[max(known, key=lambda key: key.count("."))] if known else None


def covers(key: str, parts: Sequence[str]) -> bool:
    """Whether a name contains a key of the table: `kafka.KafkaSink` in `pyflink...connectors.kafka.KafkaSink.builder`."""
    wanted = key.split(".")
    return any(list(parts[at : at + len(wanted)]) == wanted for at in range(len(parts)))


@cache
def table() -> Table:
    """The PyFlink names that are different, ignored, refused or not supported yet."""
    return tomllib.loads(files("tidegate.runtime").joinpath("pyflink.toml").read_text(encoding="utf-8"))


class _Finder(MetaPathFinder):
    """Finds `pyflink.<...>` if tidegate has a module of that name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX):
            return None
        found = ours(fullname)
        if found is None:
            raise ModuleNotFoundError(f"{fullname} is not available: {reason(fullname)}", name=fullname)
        return ModuleSpec(fullname, _Loader(found), is_package=True)


class _Loader(Loader):
    def __init__(self, found: str) -> None:
        self._found = found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name, importlib.import_module(self._found))

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to do: attributes are looked up on access."""


class _Alias(ModuleType):
    """A tidegate module under PyFlink's name.

    It is pickled as the tidegate module.
    """

    def __init__(self, theirs: str, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._theirs = theirs
        self._module = module

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(self._module, name):
            return getattr(self._module, name)
        theirs = f"{self._theirs}.{name}"
        if ours(theirs) is not None:
            return importlib.import_module(theirs)
        raise ImportError(f"{theirs} is not available: {reason(theirs)}", name=theirs)


def _is_theirs(name: str) -> bool:
    return name == "pyflink" or name.startswith(PREFIX)


def _forget() -> None:
    for name in [name for name in sys.modules if _is_theirs(name)]:
        del sys.modules[name]
