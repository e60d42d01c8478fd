"""A schema registry as Confluent's protocol has it: schemas by number, and numbers of schemas.

What a registry says about a number never changes, so it is asked once per process and schema.

Example:
    >>> SchemaRegistry("https://registry:8081", username="ada", password="secret")
    SchemaRegistry(url='https://registry:8081', username='ada')
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec

from tidegate.errors import ConfigError, RecordError, UnavailableError

__all__ = ["RegisteredSchema", "RegistryClient", "SchemaKind", "SchemaRegistry"]

SchemaKind = Literal["AVRO", "JSON", "PROTOBUF"]

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class SchemaRegistry:
    """Where a schema registry is and how to get in; picklable, and secrets are shown nowhere.

    Args:
        url: Its address, such as `http://localhost:8081`.
        username: For a login by name and password.
        password: The password.
        token: For a login by bearer token.
        ca_location: A file of certificates to trust besides the system's.
        certificate_location: A file with the certificate, and the key, that says who the program is.
        timeout_ms: How long to wait for an answer.

    Raises:
        ConfigError: the address is none.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_location: str | None = field(default=None, repr=False)
    certificate_location: str | None = field(default=None, repr=False)
    timeout_ms: int = field(default=10_000, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"schema registry url is {self.url!r}; expected an address such as 'http://localhost:8081'"
            )
        if self.timeout_ms < 1:
            raise ConfigError(f"schema registry timeout_ms is {self.timeout_ms}; expected at least 1")

    def client(self) -> RegistryClient:
        """The client of this process for it; connects when it is asked something."""
        return _client_of(self)


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema by number; `references` are the schemas it builds upon, by name, each behind what it needs itself."""

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
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=_context(registry)))
        self._schemas: dict[int, RegisteredSchema] = {}
        self._numbers: dict[tuple[str, SchemaKind, str], int] = {}

    def schema(self, number: int) -> RegisteredSchema:
        """The schema with this number.

        Raises:
            ConfigError: the registry does not let the program in.
            RecordError: there is none.
            UnavailableError: no useful answer.
        """
        if number not in self._schemas:
            status, answer = self._ask(f"/schemas/ids/{number}")
            if status == 404:
                raise RecordError(
                    f"schema {number} is not in the registry {self._url}; expected the registry that the producer "
                    "uses; or the schema was deleted there"
                )
            self._schemas[number] = RegisteredSchema(
                number, answer.get("schemaType", "AVRO"), answer["schema"], self._references(answer)
            )
        return self._schemas[number]

    def number(self, subject: str, kind: SchemaKind, text: str, *, register: bool) -> int:
        """The number of a schema under a subject, to which it is added if `register` says so.

        Raises:
            ConfigError: it is not there, does not go with earlier ones of the subject, or is no schema.
            UnavailableError: no useful answer.
        """
        key = (subject, kind, text)
        if key not in self._numbers:
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
            schema = {"schema": text, "schemaType": kind}
            status, answer = self._ask(path, schema)
            if status == _CONFLICT and register:
                # Some registries say so too where somebody else adds the same schema at this moment.
                status, answer = self._ask(path, schema)
            if status != 200:
                raise ConfigError(
                    f"schema registry {self._url}: subject {subject!r} {_REFUSALS.get(status, 'refuses the schema')}: "
                    f"{answer.get('message', status)}"
                )
            self._numbers[key] = answer["id"]
        return self._numbers[key]

    def _references(self, schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for each in schema.get("references") or ():
            status, answer = self._ask(
                f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
            )
            if status == 404:
                raise RecordError(
                    f"version {each['version']} of subject {each['subject']!r} is not in the registry {self._url}, but "
                    f"the schema of the message refers to it as {each['name']!r}"
                )
            found |= dict(self._references(answer)) | {each["name"]: answer["schema"]}
        return tuple(found.items())

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """The answer with its status; a status that says nothing of the question is an error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return answer.status, msgspec.json.decode(answer.read(), type=dict[str, Any])
        except urllib.error.HTTPError as error:
            with error:
                status, said = error.code, error.read()
        except (OSError, msgspec.MsgspecError) as error:
            raise UnavailableError(
                f"schema registry {self._url} does not answer ({error}); is it running, and is the address right?"
            ) from error
        if status in (401, 403):
            raise ConfigError(
                f"schema registry {self._url} did not let the program in (status {status}); check its login"
            )
        if status in _ABOUT_THE_SCHEMA:
            return status, _decoded(said)
        raise UnavailableError(f"schema registry {self._url} answered with status {status}: {said[:200]!r}")


_CONFLICT: Final = 409
_ABOUT_THE_SCHEMA: Final = frozenset({404, _CONFLICT, 422})
_REFUSALS: Final = {
    404: "does not have the schema; register it first, or let register be true",
    _CONFLICT: "has schemas that it is not compatible with",
    422: "does not take it for a schema",
}


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


def _decoded(said: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(said, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
