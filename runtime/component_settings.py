"""Applies component options to the components in use, and names options of components that are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.backends.spi import Buffered, SupportsMode
from tidegate.backends.storage import open_storage
from tidegate.components import options_for, owner_of, with_options
from tidegate.options import declarations
from tidegate.runtime.embedded.options import EmbeddedOptions
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.options import SparkOptions

__all__ = ["apply_settings", "unused_settings"]

_ABILITIES = {"state.checkpoints.dir-mode": SupportsMode, "state.backend.fs.write-buffer-size": Buffered}
"""Engine keys that need an ability of the storage."""


def apply_settings(steps: Iterable[Transformation], options: JobOptions) -> frozenset[str]:
    """Apply settings to options that sources and sinks do not set; returns the names of their components.

    Raises:
        ConfigError: a setting is invalid.
    """
    used: set[str] = set()

    def options_of(name: str) -> Mapping[str, Any]:
        used.add(name)
        return options_for(name, options.components)

    for step in _all(steps):
        if step.kind.role in (Role.SOURCE, Role.SINK):
            step.payload = with_options(step.payload, options_of)
    return frozenset(used)


def unused_settings(options: JobOptions, root: str, connectors: frozenset[str]) -> Iterator[str]:
    """A line for each setting without effect: the component that it belongs to, and the component in use."""
    used = {
        *connectors,
        f"backend.{options.backend}",
        "executor.embedded" if options.target in ("embedded", "inline") else "executor.spark",
        *(f"storage.{_scheme(url)}" for url in (root, options.savepoints, options.savepoint) if url),
    }
    if "executor.spark" in used:
        used.add("backend.rocksdb")  # on Spark it holds state that is too large for memory
    for key, origin in sorted(options.origins.items()):
        owner = _owner(key, options)
        if owner is not None and owner not in used:
            kind, _, name = owner.partition(".")
            others = _listed(each.partition(".")[2] for each in used if each.startswith(f"{kind}."))
            yield f"{key} ({origin}) has no effect: it is an option of {kind} {name}; this job uses {kind} {others}"
        elif key in _ABILITIES and not isinstance(open_storage(root), _ABILITIES[key]):
            yield f"{key} ({origin}) has no effect: it is for storage in directories; this job uses storage {_scheme(root)}"


def _owner(key: str, options: JobOptions) -> str | None:
    """The component that a key belongs to; None for keys of the engine."""
    for declared, name in ((EmbeddedOptions, "executor.embedded"), (SparkOptions, "executor.spark")):
        if key in declarations(declared):
            return name
    if key not in options.components:
        return None
    owner = owner_of(key)
    return f"{owner.kind}.{owner.name}"


def _all(steps: Iterable[Transformation]) -> Iterator[Transformation]:
    waiting, seen = list(steps), set[int]()
    while waiting:
        step = waiting.pop()
        if id(step) not in seen:
            seen.add(id(step))
            yield step
            waiting += [each.transformation for each in step.inputs]


def _scheme(url: str) -> str:
    scheme, found, _ = url.partition("://")
    return scheme if found else "file"


def _listed(names: Iterable[str]) -> str:
    found: Sequence[str] = sorted(names)
    return ", ".join(found) or "none"
