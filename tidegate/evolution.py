"""Schema evolution: reads bytes of a type that has changed since they were written, or refuses them.

A record may gain fields that have a default and lose fields, a row may gain fields that may be None and lose fields, ints grow wider or become floats, anything may become
optional or untyped, an enum may gain members; at any depth. Only the fingerprint of the old type is known, so the
classes in it are generated.

Example:
    >>> from tidegate.serde import codec_for
    >>> from tidegate.types import Types
    >>> convert = converter("list<long>", "msgspec", 1, Types.LIST(Types.DOUBLE()))
    >>> codec_for(Types.LIST(Types.DOUBLE())).decode(convert(codec_for(Types.LIST(Types.LONG())).encode([1, 2])))
    [1.0, 2.0]
    >>> converter("list<string>", "msgspec", 1, Types.LIST(Types.DOUBLE()))
    Traceback (most recent call last):
    tidegate.errors.StateFormatError: field []: got double; expected string
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.classes import ClassEntry, field_defaults, rebuild, record_entry
from tidegate.errors import RecordError, StateFormatError
from tidegate.row import Row
from tidegate.serde import annotation, codec_for
from tidegate.types import Kind, TypeInformation, Types
from tidegate.untyped import SelfDescribing

__all__ = ["converter"]

Convert = Callable[[Any], Any]


def converter(
    stored: str, codec: str, version: int, wanted: TypeInformation | None
) -> Callable[[bytes], bytes]:
    """Turns bytes that a codec wrote of a type with the fingerprint `stored` into those of the type `wanted`.

    The function it gives raises StateFormatError for a value that the wanted type cannot hold.

    Raises:
        StateFormatError: values of one type cannot be read as the other; the message names the field.
    """
    present = codec_for(wanted)
    old = _Parser(stored).whole()
    before, convert = _match(old, wanted or _ANY, "")
    decode = _decoder(before, codec, version)

    def convert_bytes(data: bytes) -> bytes:
        try:
            return present.encode(convert(decode(data)))
        except (RecordError, msgspec.DecodeError) as error:
            raise StateFormatError(
                f"a value of {stored} cannot be read as {wanted or 'any'}: {error}"
            ) from error

    return convert_bytes


class _Old(NamedTuple):
    """A parsed fingerprint."""

    text: str
    kind: Kind
    items: tuple[_Old, ...] = ()
    names: tuple[str, ...] = ()
    cls: str = ""


class _Parser:
    """Reads a fingerprint."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> _Old:
        """All of it."""
        found = self._type()
        if self._at != len(self._text):
            raise self._unreadable()
        return found

    def _type(self) -> _Old:
        first = self._at
        head = _HEAD.match(self._text, first)
        if head is None or (word := head["class"] or head["word"]) not in _KINDS:
            raise self._unreadable()
        self._at = head.end()
        items: list[_Old] = []
        names: list[str] = []
        while head["open"] and not self._take(_CLOSING[head["open"]]):
            self._take(", ")
            if head["open"] == "(":
                names.append(self._name())
            if word != Kind.ENUM:
                items.append(self._type())
        text = self._text[first : self._at]
        return _Old(text, Kind(word), tuple(items), tuple(names), head["name"] or "")

    def _name(self) -> str:
        name = _NAME.match(self._text, self._at)
        if name is None:
            raise self._unreadable()
        self._at = name.end()
        return name[1]

    def _take(self, text: str) -> bool:
        taken = self._text.startswith(text, self._at)
        self._at += len(text) if taken else 0
        return taken

    def _unreadable(self) -> StateFormatError:
        return StateFormatError(f"unknown type fingerprint {self._text!r}")


def _match(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    """The old type, and how its values become those of the new one."""
    if old.text == new.fingerprint:
        return new, _same
    if new.kind in (Kind.ANY, Kind.PICKLED):
        return _plain(old, new, path), _same
    if new.kind is Kind.OPTIONAL and old.kind is not Kind.OPTIONAL:
        return _match(old, new.items[0], path)
    if (old.kind, new.kind) in _WIDER:
        return TypeInformation(old.kind), _same
    if old.kind in _INTS and new.kind in (Kind.FLOAT, Kind.DOUBLE):
        return TypeInformation(old.kind), _exact_float
    if old.kind is not new.kind or old.kind not in _MATCHERS:
        raise _refusal(old, new, path)
    return _MATCHERS[old.kind](old, new, path)


def _match_optional(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    item, convert = _match(old.items[0], new.items[0], path)
    return Types.OPTIONAL(item), lambda value: None if value is None else convert(value)


def _match_many(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    item, convert = _match(old.items[0], new.items[0], f"{path}[]")
    return TypeInformation(old.kind, (item,)), lambda values: type(values)(map(convert, values))


def _match_map(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    key, convert_key = _match(old.items[0], new.items[0], f"{path}{{key}}")
    item, convert = _match(old.items[1], new.items[1], f"{path}[]")
    return Types.MAP(key, item), lambda values: {
        convert_key(name): convert(value) for name, value in values.items()
    }


def _match_tuple(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    if len(old.items) != len(new.items):
        raise _refusal(old, new, path)
    pairs = enumerate(zip(old.items, new.items, strict=True))
    ways = [_match(item, wanted, f"{path}[{index}]") for index, (item, wanted) in pairs]
    items = tuple(item for item, _ in ways)
    return Types.TUPLE(items), lambda values: tuple(
        [convert(value) for (_, convert), value in zip(ways, values, strict=True)]
    )


def _match_row(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    names = new.names or tuple(f"f{place}" for place in range(len(new.items)))
    ways = {
        name: _match(item, new.items[names.index(name)], f"{path}.{name}") if name in names else (_ANY, _same)
        for name, item in zip(old.names, old.items, strict=True)
    }
    for name, item in zip(names, new.items, strict=True):
        if name not in ways and item.kind is not Kind.OPTIONAL:
            raise _refusal(None, item, f"{path}.{name}")

    def convert_row(row: Row) -> Row:
        held = dict(zip(ways, row, strict=True))
        values = [ways[name][1](held[name]) if name in ways else None for name in names]
        return Row.of(values, new.names, row.get_row_kind())

    return TypeInformation(Kind.ROW, tuple(item for item, _ in ways.values()), old.names), convert_row


def _match_enum(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    if new.cls is None or old.cls != new.cls.__qualname__ or not set(old.names) <= set(new.names):
        raise _refusal(old, new, path)
    return new, _same


def _match_record(old: _Old, new: TypeInformation, path: str) -> tuple[TypeInformation, Convert]:
    cls = new.cls
    if cls is None or old.cls != cls.__qualname__:
        raise _refusal(old, new, path)
    wanted = dict(zip(new.names, new.items, strict=True))
    kept: dict[str, Convert] = {}
    items = []
    for name, item in zip(old.names, old.items, strict=True):
        info, convert = _match(item, wanted[name], f"{path}.{name}") if name in wanted else (_ANY, _same)
        items.append(info)
        kept[name] = convert
    defaults = field_defaults(cls)
    for name in new.names:
        if name not in kept and name not in defaults:
            raise _refusal(None, wanted[name], f"{path}.{name}")

    def convert_record(value: Any) -> Any:
        fields = [
            kept[name](getattr(value, name)) if name in kept else defaults[name]() for name in new.names
        ]
        return rebuild(cls, new.names, tuple(fields))

    before = _class_before(old, items, cls)
    return TypeInformation(Kind.RECORD, tuple(items), old.names, before), convert_record


_ANY: Final = TypeInformation(Kind.ANY)
_HEAD: Final = re.compile(r"(?:(?P<class>record|enum) (?P<name>[^(]+)|(?P<word>[a-z_]+))(?P<open>[<(]?)")
_NAME: Final = re.compile(r"([^:,)]+)(?:: )?")
_CLOSING: Final = {"(": ")", "<": ">"}
_KINDS: Final = frozenset(Kind)
_INTS: Final = (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.BIG_INT)
_WIDER: Final = frozenset(
    {(narrow, wide) for place, narrow in enumerate(_INTS) for wide in _INTS[place:]}
    | {(Kind.FLOAT, Kind.DOUBLE), (Kind.DOUBLE, Kind.FLOAT)}
    | {(Kind.TIMESTAMP, Kind.DATETIME), (Kind.INSTANT, Kind.DATETIME)}
)
_MATCHERS: Final[dict[Kind, Callable[[_Old, TypeInformation, str], tuple[TypeInformation, Convert]]]] = {
    Kind.OPTIONAL: _match_optional,
    Kind.LIST: _match_many,
    Kind.SET: _match_many,
    Kind.FROZENSET: _match_many,
    Kind.VARIADIC: _match_many,
    Kind.MAP: _match_map,
    Kind.TUPLE: _match_tuple,
    Kind.ROW: _match_row,
    Kind.ENUM: _match_enum,
    Kind.RECORD: _match_record,
}


def _plain(old: _Old, new: TypeInformation, path: str) -> TypeInformation:
    """The old type where no class has to be known."""
    if old.cls:
        raise _refusal(old, new, path)
    return TypeInformation(old.kind, tuple(_plain(item, new, path) for item in old.items), old.names)


def _class_before(old: _Old, items: Iterable[TypeInformation], cls: type[Any]) -> type[Any]:
    """A class with the old fields of a record and its current kind, which determines the layout of msgspec."""
    fields = [(name, annotation(item)) for name, item in zip(old.names, items, strict=True)]
    before: Any
    if issubclass(cls, tuple):
        make: Any = collections.namedtuple
        before = make(cls.__name__, old.names)
        before.__annotations__ = dict(fields)
    elif issubclass(cls, msgspec.Struct):
        config = cls.__struct_config__
        renamed = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        before = msgspec.defstruct(
            cls.__name__,
            fields,
            array_like=config.array_like,
            tag=config.tag,
            tag_field=config.tag_field,
            rename=renamed,
        )
    else:
        before = msgspec.defstruct(cls.__name__, fields)
    before.__qualname__ = cls.__qualname__
    made: type[Any] = before
    return made


def _decoder(before: TypeInformation, codec: str, version: int) -> Callable[[bytes], Any]:
    if (codec, version) == ("msgspec", 1):
        return msgspec.msgpack.Decoder(annotation(before)).decode
    if (codec, version) == (SelfDescribing.id, SelfDescribing.version):
        return _Before(part.cls for part in before.walk() if part.kind is Kind.RECORD and part.cls).decode
    if before.kind is Kind.PICKLED:
        return codec_for(before).decode
    raise StateFormatError(f"it was written by codec {codec} {version}, which is unknown; upgrade tidegate")


class _Before(SelfDescribing):
    """Reads records as instances of the classes given, regardless of the module they were defined in."""

    def __init__(self, classes: Iterable[type[Any]]) -> None:
        super().__init__(pickle="quiet")
        self._before = {cls.__qualname__: record_entry(cls) for cls in classes}

    def entry(self, name: str) -> ClassEntry:
        """How a class is read."""
        return self._before.get(name.partition(":")[2]) or super().entry(name)


def _same(value: Any) -> Any:
    return value


def _exact_float(value: int) -> float:
    result = float(value)
    if int(result) != value:
        raise StateFormatError(f"{value} cannot be represented exactly as a float; keep the state an int")
    return result


def _refusal(old: _Old | None, new: TypeInformation, path: str) -> StateFormatError:
    where = f"field {path.removeprefix('.')}: " if path else ""
    expected = f"expected {old.text}" if old is not None else "expected a default, because it was not stored"
    return StateFormatError(f"{where}got {new}; {expected}")
