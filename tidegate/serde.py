"""Value serialization: `decode(encode(x)) == x` with the same types at every level, or `RecordError`.

Declared and inferred types go through msgspec, guarded by a generated check; untyped values go through the
self-describing codec when persisted, and through pickle between processes of one run.

Example:
    >>> from tidegate.types import Types
    >>> codec = codec_for(Types.TUPLE([Types.LONG(), Types.STRING()]))
    >>> codec.decode(codec.encode((1, "a")))
    (1, 'a')
    >>> codec.encode((True, "a"))
    Traceback (most recent call last):
    tidegate.errors.RecordError: record does not have its declared type: field [0]: got bool True; expected long
"""

from __future__ import annotations

import gc
import pickle
import typing
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from tidegate.checks import batch_checker, checker, exact_class, locate, shorten
from tidegate.classes import ClassEntry, record_entry, register_class
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.isolation import is_immutable, isolate
from tidegate.types import Kind, TypeInformation
from tidegate.untyped import PickledValueWarning, SelfDescribing

__all__ = [
    "Codec",
    "PickledValueWarning",
    "annotation",
    "codec_for",
    "exchange_codec",
    "is_immutable",
    "isolate",
    "register_class",
]


class Codec(Protocol):
    """Turns values of one type into bytes and back; stateless, safe to share between threads."""

    @property
    def id(self) -> str:
        """Names the format; persisted with the bytes."""
        ...

    @property
    def version(self) -> int:
        """Counts changes of the format; persisted with the bytes."""
        ...

    @property
    def fingerprint(self) -> str:
        """The type as text, to recognise that it changed."""
        ...

    def encode(self, value: Any) -> bytes:
        """The bytes of one value.

        Raises:
            RecordError: it would not come back the same.
        """
        ...

    def decode(self, data: bytes) -> Any:
        """The value of bytes written by `encode`.

        Raises:
            StateFormatError: the bytes do not hold such a value.
        """
        ...

    def encode_each(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each value, quicker than one call after the other; raises as `encode` does."""
        ...

    def encode_batch(self, values: list[Any]) -> bytes:
        """The bytes of a list of values; raises as `encode` does."""
        ...

    def decode_batch(self, data: bytes) -> list[Any]:
        """The values of bytes written by `encode_batch`; raises as `decode` does."""
        ...


def codec_for(info: TypeInformation | None, *, pickle: Literal["allow", "forbid"] = "allow") -> Codec:
    """The codec for bytes that are kept: state, checkpoints, channel state.

    Raises:
        ConfigError: the type asks for pickle and pickle is forbidden.
    """
    if info is None:
        return SelfDescribing(pickle=pickle)
    asks_for_pickle = any(part.kind is Kind.PICKLED for part in info.walk())
    if asks_for_pickle and pickle == "forbid":
        raise ConfigError(f"type {info} needs pickle, which is forbidden; declare a concrete type")
    if info.kind is Kind.PICKLED:
        return _PickleCodec()
    if _is_direct(info):
        return _TypedCodec(info)
    classes = {
        part.cls: record_entry(part.cls) for part in info.walk() if part.kind is Kind.RECORD and part.cls
    }
    return _CheckedCodec(info, classes, "quiet" if asks_for_pickle else pickle)


def exchange_codec(info: TypeInformation | None, *, checked: bool = True) -> Codec:
    """The codec for bytes that are not persisted: batches between the processes of a run.

    Batches that are known to be of the type, such as canonical keys, need not be `checked` again.
    """
    return _TypedCodec(info, checked=checked) if info is not None and _is_direct(info) else _PickleCodec()


class _TypedCodec:
    """msgspec by type, after a generated check that the value is exactly of that type."""

    id: Final = "msgspec"
    version: Final = 1

    def __init__(self, info: TypeInformation, *, checked: bool = True) -> None:
        by = annotation(info)
        self.fingerprint = info.fingerprint
        self._info = info
        self._check = checker(info)
        self._check_batch = batch_checker(info) if checked else _unchecked
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(by).decode
        self._decode_batch = msgspec.msgpack.Decoder(list[by]).decode  # type: ignore[valid-type]  # dynamic

    def encode(self, value: Any) -> bytes:
        try:
            if self._check(value):
                return self._encode(value)
        except _UNENCODABLE as error:
            raise _refusal(self._info, value, error) from error
        raise _refusal(self._info, value)

    def decode(self, data: bytes) -> Any:
        try:
            return self._decode(data)
        except msgspec.DecodeError as error:
            raise _unreadable(self._info, error) from error

    def encode_each(self, values: Sequence[Any]) -> list[bytes]:
        try:
            if self._check_batch(values):
                return list(map(self._encode, values))
        except _UNENCODABLE:
            pass  # one by one below says which one it was
        return list(map(self.encode, values))

    def encode_batch(self, values: list[Any]) -> bytes:
        try:
            if self._check_batch(values):
                return self._encode(values)
        except _UNENCODABLE:
            pass  # the single value below says which one it was
        for value in values:
            self.encode(value)
        raise RecordError(f"a batch of {self._info} changed while it was encoded; emit copies")

    def decode_batch(self, data: bytes) -> list[Any]:
        collecting = gc.isenabled()
        gc.disable()  # nothing of a batch is garbage while it is built, and looking for it costs a tenth
        try:
            return self._decode_batch(data)
        except msgspec.DecodeError as error:
            raise _unreadable(self._info, error) from error
        finally:
            if collecting:
                gc.enable()


class _CheckedCodec(SelfDescribing):
    """The self-describing encoding after the check: for types that msgspec alone does not preserve exactly."""

    def __init__(
        self,
        info: TypeInformation,
        classes: dict[type[Any], ClassEntry],
        pickle: Literal["allow", "forbid", "quiet"],
    ) -> None:
        super().__init__(classes, pickle=pickle, fingerprint=info.fingerprint)
        self._info = info
        self._check = checker(info)

    def encode(self, value: Any) -> bytes:
        if not self._check(value):
            raise _refusal(self._info, value)
        return super().encode(value)

    def encode_each(self, values: Sequence[Any]) -> list[bytes]:
        return list(map(self.encode, values))

    def encode_batch(self, values: list[Any]) -> bytes:
        for value in values:
            if not self._check(value):
                raise _refusal(self._info, value)
        return super().encode(values)


class _PickleCodec:
    """Pickle 5: exact for every picklable value, between processes that run the same program."""

    id: Final = "pickle"
    version: Final = 1
    fingerprint: Final = "pickled"

    def encode(self, value: Any) -> bytes:
        try:
            return pickle.dumps(value, protocol=5)
        except Exception as error:  # pickling runs the code of the value's classes
            raise RecordError(
                f"{type(value).__name__} cannot be pickled: {error}; declare its type"
            ) from error

    def decode(self, data: bytes) -> Any:
        try:
            return pickle.loads(data)  # noqa: S301  # bytes of this run or of state that was declared pickled
        except Exception as error:  # so does unpickling
            raise StateFormatError(
                f"pickled value cannot be read: {error}; check that its classes can be imported"
            ) from error

    def encode_each(self, values: Sequence[Any]) -> list[bytes]:
        return list(map(self.encode, values))

    def encode_batch(self, values: list[Any]) -> bytes:
        return self.encode(values)

    def decode_batch(self, data: bytes) -> list[Any]:
        values: list[Any] = self.decode(data)
        return values


_UNENCODABLE: Final = (OverflowError, UnicodeEncodeError, RecursionError, AttributeError, TypeError)
_NOT_DIRECT: Final = frozenset({Kind.ANY, Kind.PICKLED, Kind.BIG_INT, Kind.ROW})
_CONTAINERS: Final[dict[Kind, Any]] = {
    Kind.LIST: list,
    Kind.SET: set,
    Kind.FROZENSET: frozenset,
    Kind.MAP: dict,
    Kind.TUPLE: tuple,
}


def _is_direct(info: TypeInformation) -> bool:
    """Whether msgspec brings every checked value of this type back as it was."""
    if not all(map(_is_direct_part, info.walk())):
        return False
    try:
        msgspec.msgpack.Decoder(annotation(info))
    except (TypeError, ValueError, NotImplementedError):
        return False  # a class in a shape msgspec does not support
    return True


def _is_direct_part(info: TypeInformation) -> bool:
    if info.kind is Kind.ENUM and info.cls is not None:
        return _is_plain_enum(info.cls)
    if info.kind is Kind.RECORD and info.cls is not None:
        return _is_plain_record(info.cls)
    return info.kind not in _NOT_DIRECT


def _is_plain_record(cls: type[Any]) -> bool:
    """Whether msgspec rebuilds a record from its fields without running code or refusing a value."""
    if hasattr(cls, "__post_init__"):
        return False
    return not any(map(_is_constrained, typing.get_type_hints(cls, include_extras=True).values()))


def _is_plain_enum(cls: type[Any]) -> bool:
    kinds = {type(member.value) for member in cls}
    return kinds in ({int}, {str})


def _is_constrained(annotation: Any) -> bool:
    """Whether decoding by this annotation refuses some values of its type."""
    if isinstance(annotation, typing.NewType):
        return _is_constrained(annotation.__supertype__)
    if typing.get_origin(annotation) is Literal or isinstance(annotation, msgspec.Meta):
        return True
    arguments = typing.get_args(annotation)
    return any(map(_is_constrained, (*arguments, *getattr(annotation, "__metadata__", ()))))


def _unchecked(values: Sequence[Any]) -> bool:
    return True


def annotation(info: TypeInformation) -> Any:
    """The annotation msgspec decodes by."""
    if info.cls is not None:
        return info.cls
    inner = tuple(annotation(item) for item in info.items)
    match info.kind:
        case Kind.OPTIONAL:
            return inner[0] | None
        case Kind.ANY:
            return Any
        case Kind.VARIADIC:
            return tuple[inner[0], ...]  # type: ignore[valid-type]  # built at run time
        case kind if kind in _CONTAINERS:
            return _CONTAINERS[kind][inner]
        case kind:
            return exact_class(kind)


def _refusal(info: TypeInformation, value: Any, cause: Exception | None = None) -> RecordError:
    if cause is None:
        return RecordError(f"record does not have its declared type: {locate(info, value)}")
    if isinstance(cause, OverflowError):
        return RecordError(
            f"record holds an int of more than 64 bits: {shorten(value)}; declare Types.BIG_INT()"
        )
    return RecordError(f"record of type {info} cannot be encoded: {cause}; got {shorten(value)}")


def _unreadable(info: TypeInformation, error: Exception) -> StateFormatError:
    return StateFormatError(
        f"bytes do not hold a value of type {info}: {error}; check whether the type was changed"
    )
