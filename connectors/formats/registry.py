"""Client of a schema registry with Confluent's protocol: schemas by id, and ids of schemas.

What a registry says about a number never changes, so it is asked once per process and schema.

Example:
    >>> SchemaRegistry("https://registry:8081", username="ada", password="secret")
    SchemaRegistry(url='https://registry:8081', username='ada')
"""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeVar, cast
from urllib.parse import quote

import msgspec

from tidegate.connectors.base.http import HttpAnswer, ask, has_login, without_login
from tidegate.errors import ConfigError, RecordError, UnavailableError
from tidegate.options import PartialOptions, option

__all__ = ["RegisteredSchema", "RegistryClient", "SchemaKind", "SchemaRegistry"]

SchemaKind = Literal["AVRO", "JSON", "PROTOBUF"]

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})
"""The registry's error codes for a missing subject, version or schema. A proxy's 404 does not have them."""
_CONFLICT: Final = 409
_REFUSALS: Final = {
    404: "does not have the schema; register it first, or set register=True",
    _CONFLICT: "has schemas that are incompatible with this one",
    422: "rejects the schema as invalid",
}

A = TypeVar("A", bound=msgspec.Struct)


_KEY: Final = "format.registry."


@dataclass(frozen=True)
class SchemaRegistry(PartialOptions):
    """Address and credentials of a schema registry; picklable; secrets are never shown.

    Args:
        url: Its address, such as `http://localhost:8081`.
        username: For a login by name and password.
        password: The password.
        token: For a login by bearer token.
        ca_location: A file of certificates to trust in addition to the system's.
        certificate_location: A file with the certificate, and the key, that says who the program is.
        timeout_ms: How long to wait for an answer.

    Raises:
        ConfigError: the address is none, or has a login in it.
    """

    url: str
    username: str | None = option(_KEY + "username", None, "user name and password for basic authentication")
    password: str | None = option(_KEY + "password", None, "the password", shown=False)
    token: str | None = option(_KEY + "token", None, "token for bearer authentication", shown=False)
    ca_location: str | None = option(
        _KEY + "ca-location", None, "file of certificates to trust in addition to the system's", shown=False
    )
    certificate_location: str | None = option(
        _KEY + "certificate-location",
        None,
        "file of the client certificate and key",
        shown=False,
    )
    timeout_ms: int = option(
        _KEY + "timeout", 10_000, "timeout of a request to a schema registry", shown=False
    )

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"schema registry url is {without_login(self.url)!r}; expected, for example, "
                "'http://localhost:8081'"
            )
        if has_login(self.url):
            raise ConfigError(
                f"schema registry url {without_login(self.url)!r} contains credentials; expected an address only; "
                "use username and password"
            )
        if self.timeout_ms < 1:
            raise ConfigError(f"schema registry timeout_ms is {self.timeout_ms}; expected at least 1")

    def client(self) -> RegistryClient:
        """The client of this process for it; connects when it is asked something."""
        return _client_of(self)


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema by number; `references` are the schemas it builds upon, by name, each after its own references."""

    number: int
    kind: SchemaKind
    text: str
    references: tuple[tuple[str, str], ...] = ()


class RegistryClient:
    """Asks a registry, and remembers the answers."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._url = registry.url.rstrip("/")
        self._timeout_s = registry.timeout_ms / 1_000
        self._headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        if registry.username is not None:
            login = f"{registry.username}:{registry.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        elif registry.token is not None:
            self._headers["Authorization"] = f"Bearer {registry.token}"
        self._context = _context(registry)
        self._schemas: dict[int, RegisteredSchema] = {}
        self._numbers: dict[tuple[str, SchemaKind, str], int] = {}

    def schema(self, number: int) -> RegisteredSchema:
        """The schema with this number.

        Raises:
            ConfigError: the registry refused the credentials.
            RecordError: it says that there is none.
            UnavailableError: no useful answer.
        """
        if number not in self._schemas:
            found = self._ask(f"/schemas/ids/{number}", _Schema)
            if isinstance(found, _Refused):
                raise RecordError(
                    f"schema {number} is not in the registry {self._url}; expected the registry of the producer, "
                    "or the schema was deleted there"
                )
            self._schemas[number] = RegisteredSchema(
                number, cast(SchemaKind, found.kind), found.text, self._references(found)
            )
        return self._schemas[number]

    def number(self, subject: str, kind: SchemaKind, text: str, *, register: bool) -> int:
        """The number of a schema under a subject, to which it is added if `register` says so.

        Raises:
            ConfigError: it is not registered, is incompatible with earlier ones of the subject, or is invalid.
            UnavailableError: no useful answer.
        """
        key = (subject, kind, text)
        if key not in self._numbers:
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
            body = json.dumps({"schema": text, "schemaType": kind}).encode()
            found = self._ask(path, _Number, body)
            if isinstance(found, _Refused) and found.status == _CONFLICT and register:
                # Some registries also answer so if another client registers the same schema concurrently.
                found = self._ask(path, _Number, body)
            if isinstance(found, _Refused):
                raise ConfigError(
                    f"schema registry {self._url}: subject {subject!r} {_REFUSALS[found.status]}: {found.message}"
                )
            self._numbers[key] = found.id
        return self._numbers[key]

    def _references(self, schema: _Schema) -> tuple[tuple[str, str], ...]:
        texts: dict[str, str] = {}
        for each in schema.references or ():
            found = self._ask(f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}", _Schema)
            if isinstance(found, _Refused):
                raise RecordError(
                    f"version {each.version} of subject {each.subject!r} is not in the registry {self._url}, but "
                    f"the schema of the message refers to it as {each.name!r}"
                )
            texts |= dict(self._references(found)) | {each.name: found.text}
        return tuple(texts.items())

    def _ask(self, path: str, expected: type[A], body: bytes | None = None) -> A | _Refused:
        """What is expected, or the registry's word against it; anything else is an outage, not an answer."""
        server = f"schema registry {self._url}"
        answer = ask(
            server, self._url + path, self._headers, body, timeout_s=self._timeout_s, context=self._context
        )
        if answer.status in (401, 403):
            raise ConfigError(f"{server} refused the credentials (status {answer.status}); check its login")
        try:
            if answer.status == 200:
                return msgspec.json.decode(answer.body, type=expected)
            if (refused := _refusal(answer, about_schema=body is not None)) is not None:
                return refused
            what = "not an answer of a schema registry"
        except msgspec.MsgspecError as error:
            what = str(error)
        raise UnavailableError(
            f"{server} answered {path} with status {answer.status}: {answer.beginning} ({what}); check that it is "
            "running and that the address is right"
        )


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Schema(msgspec.Struct, rename={"text": "schema", "kind": "schemaType"}):
    text: str
    kind: str = "AVRO"
    references: list[_Reference] | None = None


class _Number(msgspec.Struct):
    id: int


class _Error(msgspec.Struct):
    error_code: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Refused:
    status: int
    message: str


def _refusal(answer: HttpAnswer, *, about_schema: bool) -> _Refused | None:
    """A refusal by the registry: the requested item does not exist, or the schema is rejected.

    Raises:
        msgspec.MsgspecError: the body is not an error of a registry.
    """
    said = msgspec.json.decode(answer.body, type=_Error)
    no = (
        said.error_code in _NOT_FOUND if answer.status == 404 else about_schema and answer.status in _REFUSALS
    )
    return _Refused(answer.status, said.message) if no else None


@cache
def _client_of(registry: SchemaRegistry) -> RegistryClient:
    return RegistryClient(registry)


def _context(registry: SchemaRegistry) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if registry.ca_location is not None:
            context.load_verify_locations(registry.ca_location)
        if registry.certificate_location is not None:
            context.load_cert_chain(registry.certificate_location)
    except OSError as error:
        raise ConfigError(f"schema registry {registry.url}: a certificate cannot be read: {error}") from error
    return context
