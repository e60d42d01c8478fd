"""Pickling of a program's values and code for its other processes; classes of a script or notebook travel by value.

Example:
    >>> import cloudpickle
    >>> cloudpickle.loads(dumps([1, "a"]))
    [1, 'a']
"""

from __future__ import annotations

import io
from inspect import signature
from pickle import Pickler, PicklingError
from typing import Any

import cloudpickle
import msgspec
from cloudpickle.cloudpickle import _lookup_class_or_track

__all__ = ["dumps", "dumps_plain"]

_MSGSPEC_CACHE = "__msgspec_cache__"
_POST_INIT = "_tidegate_post_init"
_OPTIONS = (
    *(
        "frozen",
        "eq",
        "order",
        "array_like",
        "gc",
        "omit_defaults",
        "forbid_unknown_fields",
        "weakref",
        "dict",
    ),
    *("cache_hash", "repr_omit_defaults", "tag", "tag_field"),
)
_MADE_BY_MSGSPEC = {
    *(
        "__match_args__",
        "__struct_fields__",
        "__struct_defaults__",
        "__struct_encode_fields__",
        "__struct_config__",
    ),
    *("__annotations__", "__slots__", "__weakref__", "__dict__", "__rich_repr__"),
    *("__struct_tag__", "__struct_tag_field__"),
}


def dumps(thing: Any) -> bytes:
    """Pickle; raises any exception that the classes of `thing` raise."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(thing)
    return buffer.getvalue()


def dumps_plain(values: list[Any]) -> bytes:
    """Pickle a value of built-in types only.

    Raises:
        PicklingError: something in it has another type.
    """
    buffer = io.BytesIO()
    _Plain(buffer, protocol=5).dump(values)
    return buffer.getvalue()


class _Plain(Pickler):
    """Refuses whatever has to be asked how it travels."""

    def reducer_override(self, obj: Any) -> Any:
        raise PicklingError(f"{type(obj).__name__} is not a built-in type")


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # the library has no types
    """Omits msgspec's cache on classes, which cannot be pickled and is rebuilt when needed.

    A struct of a script has its fields in C, which the library does not know of: it is declared again by the receiver.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and _MSGSPEC_CACHE in vars(obj):
            delattr(obj, _MSGSPEC_CACHE)
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and issubclass(obj, msgspec.Struct) and isinstance(reduced, tuple):
            return _declaration(obj, reduced)
        return reduced


def _declaration(struct: type[msgspec.Struct], reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """How a class that travels by value is declared: its own fields at first, then what else cloudpickle sends of it."""
    _, arguments, (attributes, slots), *rest = reduced
    name, bases, tracker = arguments[1], arguments[2], arguments[4]
    own = vars(struct).get("__annotations__", {})
    fields = [
        (each.name, each.type, _field(each)) for each in msgspec.structs.fields(struct) if each.name in own
    ]
    config = struct.__struct_config__
    options = {option: getattr(config, option) for option in _OPTIONS}
    options["kw_only"] = any(
        each.kind is each.KEYWORD_ONLY for each in signature(struct).parameters.values() if each.name in own
    )
    first = {"__post_init__": _post_init} if "__post_init__" in attributes else {}
    later = {_POST_INIT if key == "__post_init__" else key: value for key, value in attributes.items()}
    for key in [key for key in later if key in _MADE_BY_MSGSPEC or key in own]:
        del later[key]
    return _declared, (name, bases, tracker, fields, options, first), (later, slots), *rest


def _field(info: msgspec.structs.FieldInfo) -> dict[str, Any]:
    given = {"default": info.default, "default_factory": info.default_factory, "name": info.encode_name}
    return {key: value for key, value in given.items() if value is not msgspec.NODEFAULT}


def _declared(
    name: str,
    bases: tuple[type, ...],
    tracker: str,
    fields: list[Any],
    options: dict[str, Any],
    first: dict[str, Any],
) -> Any:
    own = [(name, type_, msgspec.field(**given)) for name, type_, given in fields]
    made = msgspec.defstruct(name, own, bases=bases, namespace=first, **options)
    return _lookup_class_or_track(tracker, made)


def _post_init(self: Any) -> None:
    getattr(self, _POST_INIT)()
