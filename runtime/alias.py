"""Import alias: `pyflink.datastream` and its siblings load tidegate's modules, so PyFlink programs run unchanged.

The alias lives in a folder that is put on the module search path for one run. The path goes to every process that
works for the program, so modules beside it that import PyFlink work there, too. A name that is not there is refused
with the reason and the way on, from the table that `docs/migration.md` is made of.
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
    """PyFlink's name means us inside; afterwards nothing is left of that."""
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
    """Find PyFlink's modules from now on; called by the module of that name."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def ours(name: str) -> str | None:
    """The name of our module for one of PyFlink's, None if there is none."""
    found = "tidegate." + name.removeprefix(PREFIX)
    try:
        return found if importlib.util.find_spec(found) is not None else None
    except ModuleNotFoundError:
        return None


def reason(name: str) -> str:
    """Why a name of PyFlink is not there, and what to do."""
    return known_reason(name) or (
        "it is not a name of PyFlink's DataStream API; see docs/migration.md for what tidegate supports"
    )


def known_reason(name: str) -> str | None:
    """What the table says about a name that is not there, None if nothing."""
    parts = name.split(".")
    texts = {key: text for kind in ("refused", "later") for key, text in table()[kind].items()}
    known = [key for key in texts if covers(key, parts)]
    return texts[max(known, key=lambda key: key.count("."))] if known else None


def covers(key: str, parts: Sequence[str]) -> bool:
    """Whether a key of the table stands in a name: `kafka.KafkaSink` in `pyflink...connectors.kafka.KafkaSink.builder`."""
    wanted = key.split(".")
    return any(list(parts[at : at + len(wanted)]) == wanted for at in range(len(parts)))


@cache
def table() -> Table:
    """What is different, ignored, refused or not there yet."""
    return tomllib.loads(files("tidegate.runtime").joinpath("pyflink.toml").read_text(encoding="utf-8"))


class _Finder(MetaPathFinder):
    """Finds `pyflink.<...>` where we have a module of that name."""

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
        """Nothing to do: it only looks things up."""


class _Alias(ModuleType):
    """One of our modules under PyFlink's name.

    To another process it goes as our module.
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
