"""What the client for recovery is told of how to be let in, and what is refused; no value is in any message."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.kafka.security import admitted
from tidegate.errors import ConfigError

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
        ConfigError, match=rf"^kafka property '{key}', or what belongs to it, cannot be used: "
    ) as said:
        tls(**settings)

    assert "swordfish" not in str(said.value)


@pytest.mark.parametrize(
    "key", ["ssl.keystore.location", "sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt"]
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
    assert tokens.token() == "token 2", "a minute before its end"
    assert asked == ["scope", "scope"]


def test_a_mechanism_of_tokens_needs_somebody_to_ask() -> None:
    with pytest.raises(
        ConfigError, match=r"^kafka property 'oauth_cb' is missing: with exactly-once delivery two"
    ):
        told(**{"sasl.mechanism": "OAUTHBEARER"})


def test_a_directory_of_certificates_is_trusted(tmp_path: Path) -> None:
    assert tls(**{"ssl.ca.location": str(tmp_path)}).verify_mode is ssl.CERT_REQUIRED
