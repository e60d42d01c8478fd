"""HTTP client for requests with credentials, whose errors never show the credentials.

A redirect is followed within the same origin (scheme, host and port) only. The login goes along with a redirect, so that
following one to another origin would give it away.

Example:
    >>> without_login("https://ada:secret@registry:8081/path")
    'https://***@registry:8081/path'
"""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final
from urllib.parse import urlsplit

from tidegate.errors import UnavailableError

__all__ = ["HttpAnswer", "ask", "has_login", "without_login"]

_SHOWN_BYTES: Final = 200
_PORTS: Final = {"http": 80, "https": 443}
_SAME_REQUEST: Final = frozenset({307, 308})
"""Redirects that keep method and body."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Any status, and the body of an answer."""

    status: int
    body: bytes

    @property
    def beginning(self) -> str:
        """As much of the body as a message can bear."""
        return repr(self.body[:_SHOWN_BYTES])


def ask(
    server: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    timeout_s: float,
    context: ssl.SSLContext,
) -> HttpAnswer:
    """GET a page, or POST a body.

    Args:
        server: What messages call the server, with its address.
        url: The page, without a login.
        headers: Sent with the request and with redirects of it.
        body: What to POST.
        timeout_s: How long to wait for the server each time.
        context: Whom to trust.

    Raises:
        UnavailableError: no answer, or a redirect to another origin.
    """
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _WithinOrigin(server))
    request = urllib.request.Request(url, body, dict(headers))
    try:
        try:
            answer: Any = opener.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return HttpAnswer(answer.status, answer.read())
    except (OSError, HTTPException, ValueError) as error:
        raise UnavailableError(
            f"no answer from {server} ({error}); check that it is running and that the address is right"
        ) from error


def has_login(url: str) -> bool:
    """Whether there is a user or password in a URL; this client takes none from there."""
    return without_login(url) != url


def without_login(url: str) -> str:
    """A URL as messages show it."""
    return re.sub(r"^([A-Za-z][\w+.-]*://)?.*@", r"\1***@", url, flags=re.DOTALL)


class _WithinOrigin(urllib.request.HTTPRedirectHandler):
    def __init__(self, server: str) -> None:
        self._server = server

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        here, there = _origin(req.full_url), _origin(newurl)
        if here != there:
            fp.close()
            raise UnavailableError(
                f"{self._server} redirects from {here} to {there}; expected redirects within the same origin, "
                "because credentials would be sent along; if the server has moved, set the new address"
            )
        if code in _SAME_REQUEST:
            return urllib.request.Request(newurl, req.data, req.headers, method=req.get_method())
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> str:
    """Scheme, host and port; a login makes it another one."""
    parts = urlsplit(url)
    try:
        port = _PORTS.get(parts.scheme) if parts.port is None else parts.port
    except ValueError:
        port = None
    return f"{parts.scheme}://{'***@' if '@' in parts.netloc else ''}{parts.hostname}:{port}"
