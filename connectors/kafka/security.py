"""Security settings of the second Kafka client: librdkafka's properties as kafka-python's. Errors show no values.

Example:
    >>> from tidegate.clock import SYSTEM_CLOCK
    >>> told = admitted({"bootstrap.servers": "b:9092", "sasl.username": "ada", "linger.ms": 5}, SYSTEM_CLOCK)
    >>> told["sasl_plain_username"], told["security_protocol"], "linger.ms" in told
    ('ada', 'PLAINTEXT', False)
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from http.client import responses
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from tidegate.clock import Clock
from tidegate.connectors.base.http import ask, has_login, without_login
from tidegate.errors import ConfigError, UnavailableError

__all__ = ["admitted"]

_NAMES: Final[Mapping[str, str]] = {
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
_OIDC: Final = frozenset(
    {
        "https.ca.location",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""What the other client asks a server for tokens by."""
_TOKEN: Final = frozenset({"oauth_cb", "sasl.oauthbearer.config"}) | _OIDC
_TLS: Final = frozenset(
    {
        "enable.ssl.certificate.verification",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
_SECURITY: Final = ("sasl.", "ssl.", "https.", "enable.ssl.", "enable.sasl.", "oauth_cb")
_ANSWER_S: Final = 10.0
_HOLDS_S: Final = 300.0
"""How long a token holds of which the server does not say."""
_EARLY_S: Final = 60.0
"""How long before its expiry a token is no longer used."""


def admitted(settings: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """The addresses of brokers and the security settings for kafka-python.

    Raises:
        ConfigError: a security setting has no counterpart there, or names what cannot be read; or no token is given.
        UnavailableError: the server that gives tokens does not.
    """
    known = _NAMES.keys() | _TLS | _TOKEN
    for key in settings:
        if key.startswith(_SECURITY) and key not in known:
            raise ConfigError(
                f"kafka property {key!r} cannot be used with exactly-once delivery: recovery uses another client, "
                f"which has no such setting; expected {', '.join(sorted(known))}"
            )
    told = {_NAMES[key]: value for key, value in settings.items() if key in _NAMES}
    told["bootstrap_servers"] = [each.strip() for each in str(settings["bootstrap.servers"]).split(",")]
    told["security_protocol"] = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    if told["security_protocol"].endswith("SSL"):
        told["ssl_context"] = _context(settings)
    if told.get("sasl_mechanism", "").upper() == "OAUTHBEARER":
        oidc = settings.get("sasl.oauthbearer.method") == "oidc"
        if not oidc and not callable(settings.get("oauth_cb")):
            raise ConfigError(
                "kafka property 'oauth_cb' is missing: with exactly-once delivery two clients need a token; "
                "expected a function that returns a token and its expiry time in seconds since 1970; or "
                "sasl.oauthbearer.method 'oidc' with a token endpoint"
            )
        told["sasl_oauth_token_provider"] = tokens = _tokens(settings, clock)
        # Errors are reported here; the client would report only that brokers do not answer.
        tokens.token()
    return told


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """The TLS context: trusted certificates, client certificate, and disabled checks."""
    context = ssl.create_default_context()
    used = "ssl.ca.location"
    try:
        _trust(context, settings)
        used = "ssl.certificate.location"
        _identify(context, settings)
        used = "ssl.crl.location"
        if used in settings:
            context.load_verify_locations(settings[used])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        used = "ssl.cipher.suites"
        if used in settings:
            context.set_ciphers(settings[used])
    except (OSError, ValueError) as error:
        # An SSLError is an OSError; the name of a file may be in it, never what is in the file.
        raise ConfigError(
            f"kafka property {used!r}, or a related one, cannot be used: {error}; expected values that OpenSSL "
            "accepts"
        ) from error
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trust(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    place = settings.get("ssl.ca.location")
    if place not in (None, "probe"):
        which = {"capath": place} if Path(place).is_dir() else {"cafile": place}
        context.load_verify_locations(**which)
    if "ssl.ca.pem" in settings:
        context.load_verify_locations(cadata=settings["ssl.ca.pem"])


def _identify(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    """OpenSSL takes certificates and keys from files only, so texts are in one for a moment."""
    with ExitStack() as files:

        def file_of(what: str) -> str | None:
            if (text := settings.get(f"ssl.{what}.pem")) is None:
                found: str | None = settings.get(f"ssl.{what}.location")
                return found
            file = files.enter_context(tempfile.NamedTemporaryFile("w"))  # readable only by this user
            file.write(text)
            file.flush()
            return file.name

        certificate, key = file_of("certificate"), file_of("key")
        if certificate is not None:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password=settings.get("ssl.key.password", ""))


def _tokens(settings: Mapping[str, Any], clock: Clock) -> Any:
    """Asks the function that the other client asks, `oauth_cb`, as seldom as its answers allow."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    config = settings.get("sasl.oauthbearer.config", "")
    ask = settings.get("oauth_cb") or (lambda config: _from_server(settings, clock))

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # of a library without types
        def __init__(self) -> None:
            self._answer: tuple[Any, ...] | None = None
            self._ask_at = 0.0

        def token(self) -> str:
            """The token, of now or of earlier."""
            if self._answer is None or self._ask_at < clock.monotonic():
                self._answer = tuple(ask(config))
                holds_s = self._answer[1] - clock.now_ms() / 1_000
                self._ask_at = clock.monotonic() + holds_s - _EARLY_S
            return str(self._answer[0])

        def extensions(self) -> dict[str, str]:
            """What goes along with it."""
            more = (self._answer or ())[3:]
            return dict(more[0]) if more else {}

    return Tokens()


def _from_server(settings: Mapping[str, Any], clock: Clock) -> tuple[str, float, str, dict[str, str]]:
    """A token, its expiry time and its extensions, for the id and the secret of a client."""
    url = str(settings.get("sasl.oauthbearer.token.endpoint.url", ""))
    who, secret = (str(settings.get(f"sasl.oauthbearer.client.{what}", "")) for what in ("id", "secret"))
    if not url.startswith(("https://", "http://")) or not who:
        raise ConfigError(
            "kafka property 'sasl.oauthbearer.method' is 'oidc', but sasl.oauthbearer.token.endpoint.url or "
            "sasl.oauthbearer.client.id is missing; expected the token endpoint and the client id"
        )
    if has_login(url):
        raise ConfigError(
            f"kafka property 'sasl.oauthbearer.token.endpoint.url' contains credentials ({without_login(url)}); "
            "expected an address only; use sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
        )
    form = {"grant_type": "client_credentials", "scope": settings.get("sasl.oauthbearer.scope")}
    login = base64.b64encode(f"{who}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    body = urlencode({name: value for name, value in form.items() if value is not None}).encode()
    server = f"kafka: the token endpoint {url}"
    context = ssl.create_default_context(cafile=settings.get("https.ca.location"))
    answer = ask(server, url, headers, body, timeout_s=_ANSWER_S, context=context)
    if answer.status != 200:
        kind = ConfigError if answer.status in (400, 401, 403) else UnavailableError
        raise kind(f"{server} answered {answer.status} {responses.get(answer.status, '')}".rstrip())
    try:
        told = json.loads(answer.body)
        token, holds_s = str(told["access_token"]), float(told.get("expires_in", _HOLDS_S))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # What is in the body is not shown: it may be a token.
        raise UnavailableError(f"{server} returned no token ({type(error).__name__}: {error})") from error
    said = str(settings.get("sasl.oauthbearer.extensions", ""))
    pairs = (pair.partition("=") for pair in said.split(",") if pair)
    return token, clock.now_ms() / 1_000 + holds_s, who, {name.strip(): value for name, _, value in pairs}
