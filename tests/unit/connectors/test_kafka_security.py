"""What the client for recovery is told of how to be let in, and what is refused; no value is in any message."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.unit.connectors.registry_double import answering
from tidegate.clock import ManualClock
from tidegate.connectors.kafka.security import admitted
from tidegate.errors import ConfigError, UnavailableError

CLOCK = ManualClock()


def told(**settings: Any) -> dict[str, Any]:
    return admitted({"bootstrap.servers": "a:1, b:2", **settings}, CLOCK)


def tls(**settings: Any) -> ssl.SSLContext:
    context: ssl.SSLContext = told(**{"security.protocol": "ssl", **settings})["ssl_context"]
    return context


def test_without_security_only_the_brokers_are_told() -> None:
    assert told(**{"linger.ms": 5}) == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}


def test_a_certificate_and_its_name_are_checked_unless_told_otherwise() -> None:
    context = tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    context = tls(**{"ssl.endpoint.identification.algorithm": "none"})
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    context = tls(**{"enable.ssl.certificate.verification": "false"})
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_ciphers_are_chosen() -> None:
    name = "ECDHE-ECDSA-AES256-GCM-SHA384"
    chosen = [each["name"] for each in tls(**{"ssl.cipher.suites": name}).get_ciphers()]

    assert name in chosen
    assert len(chosen) < len(tls().get_ciphers())


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location"),
        ({"ssl.ca.pem": "swordfish"}, "ssl.ca.location"),
        ({"ssl.certificate.pem": "swordfish", "ssl.key.pem": "swordfish"}, "ssl.certificate.location"),
        ({"ssl.crl.location": "/nowhere/crl.pem"}, "ssl.crl.location"),
        ({"ssl.cipher.suites": "swordfish"}, "ssl.cipher.suites"),
    ],
    ids=["trusted", "trusted text", "own", "revoked", "ciphers"],
)
def test_what_openssl_does_not_take_is_named_without_its_value(settings: dict[str, str], key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^kafka property '{key}', or a related one, cannot be used: "
    ) as said:
        tls(**settings)

    assert "swordfish" not in str(said.value)


@pytest.mark.parametrize(
    "key", ["ssl.keystore.location", "sasl.oauthbearer.grant.type", "enable.sasl.oauthbearer.unsecure.jwt"]
)
def test_a_setting_without_a_counterpart_is_refused_by_name(key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^kafka property '{key}' cannot be used with exactly-once"
    ) as said:
        told(**{key: "swordfish"})

    assert "swordfish" not in str(said.value)


def test_a_token_is_asked_for_as_seldom_as_it_allows() -> None:
    clock, asked = ManualClock(), list[str]()

    def answer(config: str) -> tuple[Any, ...]:
        asked.append(config)
        return f"token {len(asked)}", clock.now_ms() / 1_000 + 100, "ada", {"tenant": "7"}

    settings = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": "scope", "oauth_cb": answer}
    tokens = admitted({"bootstrap.servers": "a:1", **settings}, clock)["sasl_oauth_token_provider"]

    assert [tokens.token(), tokens.token(), tokens.extensions()] == ["token 1", "token 1", {"tenant": "7"}]
    clock.advance(41_000)
    clock.set(-3_600_000)
    assert tokens.token() == "token 2", "a minute before its end, whatever the wall clock was set to"
    assert asked == ["scope", "scope"]


OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "ada",
    "sasl.oauthbearer.client.secret": "swordfish",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "tenant=7,pool=a",
}


def test_a_server_gives_tokens_for_the_id_and_the_secret_of_a_client() -> None:
    clock = ManualClock()
    with answering() as server:
        server.given["/token"] = (200, {"access_token": "first", "expires_in": 100})
        settings = {
            **OIDC,
            "sasl.oauthbearer.token.endpoint.url": f"{server.url}/token",
            "bootstrap.servers": "a:1",
        }
        tokens = admitted(settings, clock)["sasl_oauth_token_provider"]
        assert [tokens.token(), tokens.token()] == ["first", "first"]
        server.given["/token"] = (200, {"access_token": "second"})
        clock.advance(50_000)
        assert tokens.token() == "second"

    login = "Basic " + base64.b64encode(b"ada:swordfish").decode()
    assert server.asked == [("/token", login), ("/token", login)]
    assert tokens.extensions() == {"tenant": "7", "pool": "a"}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((401, {}), ConfigError, "answered 401 Unauthorized"),
        ((503, {}), UnavailableError, "answered 503 Service Unavailable"),
        ((200, {"token": "x"}), UnavailableError, r"returned no token \(KeyError: 'access_token'\)"),
        ((200, b"<html>"), UnavailableError, r"returned no token \(JSONDecodeError"),
    ],
    ids=["refused", "away", "no token", "no JSON"],
)
def test_a_server_that_gives_no_token_is_named_without_the_secret(
    answer: tuple[int, Any], error: type[Exception], message: str
) -> None:
    with answering() as server:
        server.given["/token"] = answer
        expected = rf"^kafka: the token endpoint {server.url}/token {message}"
        with pytest.raises(error, match=expected) as said:
            told(**OIDC, **{"sasl.oauthbearer.token.endpoint.url": f"{server.url}/token"})

    assert "swordfish" not in str(said.value)


def test_who_asks_a_server_for_tokens_says_which() -> None:
    with pytest.raises(
        ConfigError, match=r"but sasl\.oauthbearer\.token\.endpoint\.url or sasl\.oauthbearer\.client\.id"
    ):
        told(**OIDC)


def test_a_mechanism_of_tokens_needs_somebody_to_ask() -> None:
    with pytest.raises(
        ConfigError, match=r"^kafka property 'oauth_cb' is missing: with exactly-once delivery two"
    ):
        told(**{"sasl.mechanism": "OAUTHBEARER"})


def test_a_directory_of_certificates_is_trusted(tmp_path: Path) -> None:
    assert tls(**{"ssl.ca.location": str(tmp_path)}).verify_mode is ssl.CERT_REQUIRED
