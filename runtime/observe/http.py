"""HTTP server for `/metrics` and `/status` of a run; read-only, on loopback by default."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Final

import msgspec

from tidegate.errors import ConfigError
from tidegate.runtime.observe.prometheus import CONTENT_TYPE, Subject, exposition
from tidegate.runtime.observe.run_snapshot import RunSnapshot

__all__ = ["Subject", "serving"]

_POLL_S: Final = 0.05


@contextlib.contextmanager
def serving(subject: Subject, latest: Callable[[], RunSnapshot], place: tuple[str, int]) -> Iterator[str]:
    """Serve until the end of the block; gives the URL.

    Raises:
        ConfigError: the address is taken, or is none of this machine.
    """

    def page(path: str) -> tuple[str, bytes] | None:
        if path == "/metrics":
            return CONTENT_TYPE, exposition(subject, latest()).encode()
        if path == "/status":
            return "application/json", status_json(subject, latest())
        return None

    try:
        server = _Server(place, page)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot serve metrics at {place[0]}:{place[1]}: {error}; choose another metrics.http.port, or 0 for a "
            "free one"
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True, name="tidegate-http")
    thread.start()
    try:
        yield f"http://{server.server_name}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def status_json(subject: Subject, run: RunSnapshot) -> bytes:
    """The whole run snapshot as one JSON object."""
    return msgspec.json.encode({**dataclasses.asdict(subject), **dataclasses.asdict(run)})


class _Server(ThreadingHTTPServer):
    """Knows its pages: content type and body by path."""

    def __init__(self, place: tuple[str, int], page: Callable[[str], tuple[str, bytes] | None]) -> None:
        super().__init__(place, _Handler)
        self.page = page

    def server_bind(self) -> None:
        """Bind without a DNS query for the name of the address, which is not needed and may be slow."""
        TCPServer.server_bind(self)
        address, self.server_port = self.server_address[:2]
        self.server_name = str(address)


class _Handler(BaseHTTPRequestHandler):
    """Serves GET only; writes nothing to standard error."""

    timeout = 10
    server: _Server

    def do_GET(self) -> None:
        """Answer."""
        found = self.server.page(self.path)
        content_type, body = found or (
            "text/plain; charset=utf-8",
            b"not found; the pages are /metrics and /status\n",
        )
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """The job's own output is no access log."""
