"""Messages with a schema in a registry: Avro, JSON and Protobuf, in the format of Confluent's clients.

Each class reads and writes. To write, a `subject` has to be named, usually the topic's name and `-value`; a schema that
is not there yet is registered if the subject takes it.

Example:
    >>> from tidegate.connectors.formats.registry import SchemaRegistry
    >>> schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    >>> orders = RegistryAvro(SchemaRegistry("http://localhost:8081"), schema, subject="orders-value")
"""

from __future__ import annotations

import base64
import inspect
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import msgspec

from tidegate.components import OptionsOf
from tidegate.connectors.formats.framing import framed, indexes, unframed
from tidegate.connectors.formats.registry import RegisteredSchema, SchemaKind, SchemaRegistry
from tidegate.connectors.formats.schema import DeserializationSchema, SerializationSchema
from tidegate.errors import ConfigError, RecordError
from tidegate.options import filled

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["RegistryAvro", "RegistryJson", "RegistryProtobuf", "RegistrySchema"]

Read: TypeAlias = Callable[[bytes], Any]
Write: TypeAlias = Callable[[Any], bytes]


class RegistrySchema(SerializationSchema, DeserializationSchema):
    """What the three have in common: numbers in front of messages, and a reader for each number.

    Args:
        registry: Where schemas are.
        subject: Where the schema of what is written belongs; needed for writing only.
        register: Whether a schema that the subject does not have is added to it.
    """

    kind: ClassVar[SchemaKind]

    def __init__(
        self, registry: SchemaRegistry, *, subject: str | None = None, register: bool = True
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._register = register
        self._readers: dict[int, Read] = {}
        self._writer: tuple[bytes, Write] | None = None

    def with_options(self, options_of: OptionsOf) -> Self:
        """The same format, with settings for what its registry leaves open."""
        made = copy(self)
        made._registry = filled(self._registry, options_of("format.registry"))
        return made

    def deserialize(self, message: bytes | None) -> Any:
        """The record; None for a tombstone.

        Raises:
            ConfigError: the registry refused the credentials.
            RecordError: it has no such schema, or the message is not what its schema says.
            UnavailableError: the registry does not answer.
        """
        if message is None:
            return None
        number, rest = unframed(message)
        read = self._readers.get(number)
        if read is None:
            schema = self._registry.client().schema(number)
            if schema.kind != self.kind:
                raise RecordError(
                    f"schema {number} is {schema.kind}; expected {self.kind}; read it with another format"
                )
            read = self._readers[number] = self._reading(schema)
        try:
            return read(rest)
        except RecordError:
            raise
        except Exception as error:
            raise RecordError(
                f"the message does not match schema {number}, or does not match the schema of the program: "
                f"{type(error).__name__}: {error}"
            ) from error

    def serialize(self, element: Any) -> bytes:
        """The message.

        Raises:
            ConfigError: the subject does not take the schema.
            RecordError: the record does not match the schema.
            UnavailableError: the registry does not answer.
        """
        head, write = self._writer or self._prepared()
        try:
            return head + write(element)
        except Exception as error:
            raise RecordError(
                f"record {element!r:.80} does not match the schema of subject {self._subject!r}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _prepared(self) -> tuple[bytes, Write]:
        if self._subject is None:
            raise ConfigError(
                f"{type(self).__name__} has no subject to write to; expected, for example, 'orders-value'"
            )
        text, path, write = self._writing()
        number = self._registry.client().number(self._subject, self.kind, text, register=self._register)
        self._writer = (framed(number, path), write)
        return self._writer

    @abstractmethod
    def _reading(self, schema: RegisteredSchema) -> Read:
        """What reads messages of a schema."""

    @abstractmethod
    def _writing(self) -> tuple[str, tuple[int, ...] | None, Write]:
        """The schema to register, the path to a type in it if it is a file of several, and what writes messages."""


class RegistryAvro(RegistrySchema):
    """Avro, as dictionaries.

    Args:
        registry: Where schemas are.
        schema: JSON of the schema the program works with: messages of older and newer ones are made to fit it, as
            Avro's rules say. Without it messages are read as they were written.
        subject: Where the schema belongs; needed for writing only.
        register: Whether a schema that the subject does not have is added to it.
    """

    kind = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | None = None,
        *,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        super().__init__(registry, subject=subject, register=register)
        self._schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return (_made, (RegistryAvro, (self._registry, self._schema), self._subject, self._register))

    def _reading(self, schema: RegisteredSchema) -> Read:
        from tidegate.connectors.formats._client import avro_reader

        return avro_reader(schema.text, [text for _, text in schema.references], self._schema)

    def _writing(self) -> tuple[str, None, Write]:
        from tidegate.connectors.formats._client import avro_writer

        if self._schema is None:
            raise ConfigError("RegistryAvro has no writer schema; expected JSON")
        return self._schema, None, avro_writer(self._schema)


class RegistryJson(RegistrySchema):
    """JSON that is checked against a JSON Schema, of drafts 4, 6 and 7.

    Args:
        registry: Where schemas are.
        schema: JSON of the schema; needed for writing only.
        type: An additional type check of values, as msgspec supports it; none if `Any`.
        subject: Where the schema belongs; needed for writing only.
        register: Whether a schema that the subject does not have is added to it.
    """

    kind = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | None = None,
        type: Any = Any,
        *,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        super().__init__(registry, subject=subject, register=register)
        self._schema = schema
        self._type = type

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _made,
            (RegistryJson, (self._registry, self._schema, self._type), self._subject, self._register),
        )

    def _reading(self, schema: RegisteredSchema) -> Read:
        from tidegate.connectors.formats._client import json_check

        check, expected = json_check(schema.text, dict(schema.references)), self._type

        def read(message: bytes) -> Any:
            value = msgspec.json.decode(message)
            check(value)
            return value if expected is Any else msgspec.convert(value, expected)

        return read

    def _writing(self) -> tuple[str, None, Write]:
        from tidegate.connectors.formats._client import json_check

        if self._schema is None:
            raise ConfigError("RegistryJson has no writer schema; expected JSON")
        check = json_check(self._schema, {})

        def write(element: Any) -> bytes:
            check(msgspec.to_builtins(element))
            return msgspec.json.encode(element)

        return self._schema, None, write


class RegistryProtobuf(RegistrySchema):
    """Protobuf, as messages of a generated class; unknown fields are preserved.

    Args:
        registry: Where schemas are.
        message: The class.
        subject: Where its file belongs; needed for writing only.
        register: Whether a file that the subject does not have is added to it.
    """

    kind = "PROTOBUF"

    def __init__(
        self,
        registry: SchemaRegistry,
        message: type[Message],
        *,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        super().__init__(registry, subject=subject, register=register)
        if not (inspect.isclass(message) and hasattr(message, "FromString")):
            raise ConfigError(f"RegistryProtobuf needs a generated message class; got {message!r:.80}")
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_made, (RegistryProtobuf, (self._registry, self._message), self._subject, self._register))

    def _reading(self, schema: RegisteredSchema) -> Read:
        parse = self._message.FromString
        return lambda rest: parse(indexes(rest)[1])

    def _writing(self) -> tuple[str, tuple[int, ...], Write]:
        from tidegate.connectors.formats._client import protobuf_file

        file, path = protobuf_file(self._message)
        expected: Any = self._message

        def write(element: Any) -> bytes:
            if not isinstance(element, expected):
                raise TypeError(f"got {type(element).__name__}; expected {expected.DESCRIPTOR.full_name}")
            data: bytes = element.SerializeToString()
            return data

        return base64.b64encode(file).decode(), path, write


def _made(cls: type[Any], given: tuple[Any, ...], subject: str | None, register: bool) -> Any:
    return cls(*given, subject=subject, register=register)
