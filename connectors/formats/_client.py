"""Client of fastavro, fastjsonschema and protobuf."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, MissingExtraError

try:
    import fastavro
    import fastjsonschema
    from fastavro.schema import SchemaParseException, UnknownType
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
except ImportError as missing:
    raise MissingExtraError("formats are not installed; run: pip install 'tidegate[formats]'") from missing

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

__all__ = ["avro_reader", "avro_writer", "json_check", "parsed", "protobuf_file"]


def parsed(text: str, references: Sequence[str] = ()) -> Any:
    """An Avro schema; `references` are schemas it builds upon.

    Raises:
        ConfigError: it is none.
    """
    named: dict[str, Any] = {}
    try:
        for each in references:
            fastavro.parse_schema(json.loads(each), named)
        return fastavro.parse_schema(json.loads(text), named)
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise ConfigError(
            f"invalid Avro schema {text:.80} ({type(error).__name__}: {error}); expected JSON"
        ) from error


def avro_reader(
    written: str, references: Sequence[str] = (), expected: str | None = None
) -> Callable[[bytes], Any]:
    """What reads one value of a schema, made to fit another one if that is `expected`."""
    writer = parsed(written, references)
    reader = None if expected is None or expected == written else parsed(expected)

    def read(data: bytes) -> Any:
        buffer = BytesIO(data)
        value = fastavro.schemaless_reader(buffer, writer, reader)
        if left := len(data) - buffer.tell():
            raise ValueError(f"{left} trailing bytes")
        return value

    return read


def avro_writer(schema: str) -> Callable[[Any], bytes]:
    """What writes one value; fields that the schema does not have are refused."""
    known = parsed(schema)

    def write(value: Any) -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, known, value, strict_allow_default=True)
        return buffer.getvalue()

    return write


def json_check(schema: str, references: Mapping[str, str]) -> Callable[[Any], Any]:
    """What raises for a value that a JSON Schema does not allow; `references` are schemas by the names it uses.

    Raises:
        ConfigError: it is none, or refers to what is not there.
    """

    def elsewhere(name: str) -> Any:
        if name not in references:
            raise ConfigError(
                f"JSON schema {schema:.80} refers to {name!r}, which is not among its references"
            )
        return json.loads(references[name])

    try:
        # An empty scheme is what a reference by a plain name has.
        handlers = dict.fromkeys(("", "http", "https", "file"), elsewhere)
        check: Callable[[Any], Any] = fastjsonschema.compile(
            json.loads(schema), handlers=handlers, use_default=False
        )
    except ConfigError:
        raise
    except (ValueError, fastjsonschema.JsonSchemaDefinitionException) as error:
        raise ConfigError(f"invalid JSON schema {schema:.80} ({error}); expected JSON") from error
    return check


def protobuf_file(message: type[Message]) -> tuple[bytes, tuple[int, ...]]:
    """The file that a message type is defined in, and the path of positions to it.

    Raises:
        ConfigError: the file imports others besides Google's own, which would have to be registered first.
    """
    described = message.DESCRIPTOR
    found = FileDescriptorProto()
    described.file.CopyToProto(found)
    if more := [name for name in found.dependency if not name.startswith("google/protobuf/")]:
        raise ConfigError(
            f"the Protobuf file {found.name} imports {', '.join(more)}; expected all types in one file; move them "
            "into it"
        )
    return found.SerializeToString(), _path(described)


def _path(described: Descriptor) -> tuple[int, ...]:
    outer = described.containing_type
    if outer is None:
        return (list(described.file.message_types_by_name).index(described.name),)
    return (*_path(outer), [each.name for each in outer.nested_types].index(described.name))
