"""Credentials stay with the origin they are for: redirects within it are followed, to another one they are refused."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.connectors.registry_double import Answers, answering
from tidegate.clock import ManualClock
from tidegate.connectors.base.http import HttpAnswer, ask, without_login
from tidegate.connectors.formats import RegistryAvro, SchemaRegistry
from tidegate.connectors.formats.framing import framed
from tidegate.connectors.kafka.security import admitted
from tidegate.errors import ConfigError, UnavailableError


@pytest.fixture
def one() -> Iterator[Answers]:
    with answering() as answers:
        yield answers


@pytest.fixture
def other() -> Iterator[Answers]:
    with answering() as answers:
        yield answers


def get(url: str, body: bytes | None = None, context: ssl.SSLContext | None = None) -> HttpAnswer:
    trusted = context or ssl.create_default_context()
    return ask("the server", url, {"Authorization": "Basic secret"}, body, timeout_s=10, context=trusted)


def registry(server: Answers) -> None:
    RegistryAvro(SchemaRegistry(server.url, username="ada", password="secret")).deserialize(framed(1))


def token(server: Answers) -> None:
    oidc = {
        "bootstrap.servers": "a:1",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": f"{server.url}/token",
    }
    admitted(oidc, ManualClock())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("client", [registry, token])
def test_a_login_does_not_follow_a_redirect_to_another_server(
    one: Answers, other: Answers, client: Callable[[Answers], None], status: int
) -> None:
    for path in ("/schemas/ids/1", "/token"):
        one.moved[path] = (status, other.url + path)
        other.given[path] = (200, {"schema": '"long"', "access_token": "stolen"})

    with pytest.raises(
        UnavailableError,
        match=rf"{one.url}(/token)? redirects from {one.url} to {other.url}; expected redirects within the same origin",
    ) as caught:
        client(one)

    assert (other.asked, other.sent) == ([], [])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_an_origin_is_followed_with_the_login(one: Answers, status: int) -> None:
    one.moved["/old"] = (status, "/new")
    one.given["/new"] = (200, b"here")

    assert get(f"{one.url}/old") == HttpAnswer(200, b"here")
    assert one.asked == [("/old", "Basic secret"), ("/new", "Basic secret")]


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_the_request_keeps_its_body(one: Answers, status: int) -> None:
    one.moved["/old"] = (status, f"{one.url}/new")
    one.given["/new"] = (200, b"here")

    assert get(f"{one.url}/old", b"asked") == HttpAnswer(200, b"here")
    assert one.sent == [("POST", b"asked"), ("POST", b"asked")]


def test_redirects_in_a_circle_come_to_an_end(one: Answers) -> None:
    one.moved["/a"], one.moved["/b"] = (302, "/b"), (302, "/a")

    assert get(f"{one.url}/a").status == 302
    assert len(one.asked) < 20


def test_a_login_in_a_redirect_is_another_origin_and_is_not_shown(one: Answers) -> None:
    one.moved["/a"] = (302, one.url.replace("://", "://ada:swordfish@") + "/b")

    with pytest.raises(UnavailableError, match=r"redirects from http://127.* to http://\*\*\*@127") as caught:
        get(f"{one.url}/a")
    assert "swordfish" not in str(caught.value)


def test_a_redirect_from_https_to_http_is_refused(one: Answers, tmp_path: Path) -> None:
    with answering(certified(tmp_path)) as safe:
        safe.moved["/a"] = (302, f"{one.url}/a")
        safe.moved["/b"] = (302, safe.url.replace("https", "http") + "/b")
        safe.given["/c"] = (200, b"here")
        trusted = ssl.create_default_context(cafile=tmp_path / "own.pem")

        assert get(f"{safe.url}/c", context=trusted).body == b"here"
        for path, there in (("/a", one.url), ("/b", safe.url.replace("https", "http"))):
            with pytest.raises(UnavailableError, match=rf"redirects from {safe.url} to {there};"):
                get(safe.url + path, context=trusted)

    assert one.asked == []
    assert [path for path, _ in safe.asked] == ["/c", "/a", "/b"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:x/", "//other/a", "ftp://127.0.0.1/a"])
def test_a_redirect_to_another_scheme_or_host_is_refused(one: Answers, url: str) -> None:
    one.moved["/a"] = (302, url)

    with pytest.raises(UnavailableError, match="redirects from"):
        get(f"{one.url}/a")
    assert len(one.asked) == 1


def test_a_redirect_to_a_file_is_not_followed(one: Answers) -> None:
    one.moved["/a"] = (302, "file:///etc/passwd")

    assert get(f"{one.url}/a").status == 302


def test_a_server_that_speaks_something_else_does_not_answer(one: Answers, tmp_path: Path) -> None:
    with answering(certified(tmp_path)) as safe:
        with pytest.raises(UnavailableError, match=r"^no answer from the server \("):
            get(safe.url)
        with pytest.raises(UnavailableError, match=r"^no answer from the server \("):
            get(one.url.replace("http", "https"))


def test_a_login_in_the_address_of_a_token_server_is_refused_and_not_shown() -> None:
    elsewhere = Answers()
    elsewhere.url = "http://ada:swordfish@127.0.0.1:1"
    with pytest.raises(
        ConfigError, match=r"contains credentials \(http://\*\*\*@127.0.0.1:1/token\)"
    ) as caught:
        token(elsewhere)
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/a", "http://host/a"),
        ("http://ada:se@cr/et@host/a", "http://***@host/a"),
        ("ada:secret@host", "***@host"),
    ],
)
def test_a_url_is_shown_without_its_login(url: str, shown: str) -> None:
    assert without_login(url) == shown


def certified(directory: Path) -> ssl.SSLContext:
    """A server on loopback with a certificate of its own, which is left in `own.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin.replace(year=2120))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    own = directory / "own.pem"
    own.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    return context
