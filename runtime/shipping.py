"""Serialisation of user code for worker processes.

Functions and classes of a script or notebook are pickled by value. A worker can decode records of such classes only if
its `__main__` has the classes too, so they are sent before any records.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import cloudpickle

from tidegate.connectors.base.pickling import dumps
from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import Hash

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex

__all__ = ["adopt_main_classes", "pack", "pack_main_classes", "pack_vertices", "unpack"]


def pack(what: str, thing: Any) -> bytes:
    """Serialise a user object.

    Raises:
        ConfigError: it cannot be serialised; the message calls it `what`.
    """
    try:
        return dumps(thing)
    except Exception as error:
        raise ConfigError(
            f"{what} cannot be sent to another process: {type(error).__name__}: {error}; "
            "create connections, locks and files in open() instead of capturing them"
        ) from error


def unpack(data: bytes) -> Any:
    """A new copy of the object that `pack` serialised.

    Raises:
        ConfigError: it needs a module that this process cannot import.
    """
    try:
        return cloudpickle.loads(data)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the program needs module {error.name!r}, which cannot be imported where it runs "
            f"({platform.node()}, {sys.executable}); install it there, or ship it with the program"
        ) from error


def pack_vertices(vertices: Collection[JobVertex]) -> dict[str, bytes]:
    """Each vertex serialised, so that each subtask gets its own copy.

    Raises:
        ConfigError: a user object cannot be serialised; the message names the operator.
    """
    for vertex in vertices:
        for uid, node in vertex.nodes.items():
            pack(f"operator {node.name!r} (uid {uid!r})", node.payload)
        for edge in vertex.outputs:
            if isinstance(edge.partition, Hash):
                pack(f"the key selector behind operator {edge.node!r}", edge.partition.selector)
        for uid, keyed in vertex.rekeyed.items():
            pack(f"the key selector in front of operator {uid!r}", keyed.selector)
    return {vertex.id: pack(f"vertex {vertex.id!r}", vertex) for vertex in vertices}


def pack_main_classes() -> bytes:
    """The classes of this process's main module, without those that cannot be serialised."""
    packed: dict[str, bytes] = {}
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if isinstance(value, type) and value.__module__ == "__main__":
            try:
                packed[name] = pack(name, value)
            except ConfigError:
                continue  # sending a record of the class raises an error
    return pack("the program's classes", packed)


def adopt_main_classes(data: bytes) -> None:
    """Add the classes of the program's main module to the main module of this process."""
    for name, packed in unpack(data).items():
        setattr(sys.modules["__main__"], name, unpack(packed))
