"""A registry that answers what it is told to, for what a real one seldom says."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Answers:
    """What it says to each path, and before that `once`; where it has `moved` to; `asked` has the requests with their
    login, `sent` the method and the body of each."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[int, Any]] = {}
        self.once: dict[str, tuple[int, Any]] = {}
        self.moved: dict[str, tuple[int, str]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.sent: list[tuple[str, bytes]] = []
        self.url = ""


@contextmanager
def answering(context: ssl.SSLContext | None = None) -> Iterator[Answers]:
    """A server on loopback, over TLS if there is a context; paths it was told nothing of are unknown."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body_sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answers.sent.append((self.command, body_sent))
            answers.asked.append((self.path, self.headers.get("Authorization")))
            found = answers.once.pop(self.path, None) or answers.given.get(self.path)
            status, body = found or (404, {"error_code": 40403, "message": "not found"})
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            moved = answers.moved.get(self.path)
            self.send_response(moved[0] if moved is not None else status)
            if moved is not None:
                self.send_header("Location", moved[1])
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer  # noqa: N815 # names of the standard library

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    answers.url = f"http{'s' * (context is not None)}://127.0.0.1:{server.server_port}"
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
